"""The public names of a package: written once, in its `if TYPE_CHECKING:` block, imported on first use.

    if TYPE_CHECKING:
        from dissonance.pdg import PDG as PDG
        from . import cpds as cpds

    lazily(__name__)

Type checkers and editors read the block as it stands. `lazily` makes of it the imports, `__all__`, completion, and the
hint where a name is; `docs/api.py` makes the API page. `as` marks what is public: an import without it is for types
only. Names that a module defines itself are in its `__all__`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType
from typing import Any, NamedTuple


class Names(NamedTuple):
    """What a module offers: `homes` has for each name the module it lives in, `packages` its public submodules."""

    homes: dict[str, str]
    packages: list[str]


def public(module: str) -> Names:
    """The public names of a module, read from its source: nothing is imported but the packages that it is in."""
    import ast

    spec = importlib.util.find_spec(module)
    source = None if spec is None else getattr(spec.loader, "get_source")(module)  # noqa: B009
    found = Names({}, [])
    for node in ast.parse(source or "").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            found.homes.update(dict.fromkeys(ast.literal_eval(node.value), module))
        if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING":
            continue
        for line in node.body:
            names = [a.name for a in getattr(line, "names", ()) if a.asname == a.name]
            if isinstance(line, ast.ImportFrom) and line.module is None:
                found.packages.extend(names)
            elif isinstance(line, ast.ImportFrom):
                found.homes.update(dict.fromkeys(names, str(line.module)))
    return found


def lazily(package: str) -> None:
    """Have a module import each of its public names when it is first asked for.

    Importing a submodule does not hide a public name that it shares (`inconsistency`, `flow_network`).
    """
    names = public(package)

    class Package(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name in names.packages:
                return importlib.import_module(f"{package}.{name}")
            if names.homes.get(name, package) == package:
                caller = sys._getframe(1).f_code.co_name  # pyright: ignore[reportPrivateUsage]
                raise _unknown(package, name, names, importing=caller == "_handle_fromlist")
            value = getattr(importlib.import_module(names.homes[name]), name)
            setattr(self, name, value)
            return value

        def __setattr__(self, name: str, value: object) -> None:
            if isinstance(value, ModuleType) and name in names.homes:
                value = getattr(value, name)
            super().__setattr__(name, value)

        def __dir__(self) -> list[str]:
            return sorted({*names.homes, *names.packages, *(n for n in vars(self) if n.startswith("__"))})

    module = sys.modules[package]
    module.__class__ = Package
    vars(module)["__all__"] = sorted(names.homes)


def _unknown(package: str, name: str, names: Names, importing: bool) -> Exception:
    """The error that says where a name is, if it is in one of the public submodules.

    `from package import name` would replace an AttributeError by an ImportError that does not say so: `importing`.
    """
    known = [] if name.startswith("_") else names.packages
    where = next((p for p in known if name in public(f"{package}.{p}").homes), None)
    if where is None:
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    message = f"{package}.{name} is in {package}.{where}: from {package}.{where} import {name}"
    return ImportError(message) if importing else AttributeError(message)
