"""The lists of names in api.md: `python docs/api.py` writes them again, from the tables that the packages import by.

The text between the lists is written by hand. A heading that is the name of a package has its list below it.
"""

from __future__ import annotations

import re
from importlib import import_module
from inspect import isroutine
from pathlib import Path

from dissonance.lazy import public

PAGE = Path(__file__).with_name("api.md")
LIST = re.compile(r"(^## `(dissonance[\w.]*)`\n(?:(?!^## ).)*?)^```\{eval-rst\}\n.*?^```\n", re.MULTILINE | re.DOTALL)
AUTOSUMMARY = ".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n"


def packages() -> list[str]:
    """The front door, and the public packages behind it."""
    return ["dissonance", *(f"dissonance.{p}" for p in public("dissonance").packages)]


def listed(package: str) -> list[str]:
    """The classes and functions of a package; those that are also at the front door are listed only there."""
    door = set() if package == "dissonance" else set(public("dissonance").homes)
    values = {n: getattr(import_module(package), n) for n in sorted(public(package).homes) if n not in door}
    return [n for n, x in values.items() if isinstance(x, type) or isroutine(x)]


def lists(package: str) -> str:
    """The list of a package as reStructuredText; that of the front door has one for each module it comes from."""
    names = listed(package)
    if package != "dissonance":
        return _list(package, names)
    homes = public(package).homes
    groups = {m: [n for n in names if homes[n] == m] for m in dict.fromkeys(homes.values())}
    rubric = ".. rubric:: {}\n\n".format
    return "\n".join(rubric(_sentence(m)) + _list(package, some) for m, some in groups.items())


def _list(package: str, names: list[str]) -> str:
    return AUTOSUMMARY + "".join(f"   ~{package}.{n}\n" for n in names)


def _sentence(module: str) -> str:
    """The first sentence of a module's docstring, up to the colon."""
    return re.split(r"[:.](?:\s|$)", import_module(module).__doc__ or module)[0]


def page(text: str) -> str:
    """The page with all its lists made anew."""
    return LIST.sub(lambda found: f"{found[1]}```{{eval-rst}}\n{lists(found[2])}```\n", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
