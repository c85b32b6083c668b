"""Packages whose public names are imported on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def lazily(package: str, where: Mapping[str, str]) -> None:
    """Have a package import each public name from the submodule that `where` names, when it is first asked for.

    Importing a submodule does not hide a public name that it shares (`inconsistency`, `flow_network`).
    """

    class Package(ModuleType):
        def __getattr__(self, name: str) -> Any:
            if name not in where:
                raise AttributeError(f"module {package!r} has no attribute {name!r}")
            value = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
            setattr(self, name, value)
            return value

        def __setattr__(self, name: str, value: object) -> None:
            if isinstance(value, ModuleType) and name in where:
                value = getattr(value, name)
            super().__setattr__(name, value)

    sys.modules[package].__class__ = Package
