"""A cpd at other parameters: its modules are copied, its tensors are not, and the cpd itself is left unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import getrefcount
from types import MethodType
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from dissonance.errors import CapabilityError

Module = TypeVar("Module", bound=nn.Module)
Names = dict[str, str]

KINDS = "_parameters", "_buffers"


class Held(Generic[Module]):
    """Where a module and its parts hold parameters and buffers, and the keys of these: "prefix.part.name".

    What has several names has the key of the first.
    """

    def __init__(self, module: Module, prefix: str = "") -> None:
        self.module = module
        self.parts: list[tuple[nn.Module, tuple[Names, Names]]] = []
        first: dict[int, str] = {}
        for path, part in module.named_modules():
            parameters, buffers = (
                {
                    name: first.setdefault(id(value), ".".join(filter(None, (prefix, path, name))))
                    for name, value in part.__dict__[kind].items()
                    if value is not None
                }
                for kind in KINDS
            )
            self.parts.append((part, (parameters, buffers)))
        self.keys = tuple(dict.fromkeys(key for _, names in self.parts for keys in names for key in keys.values()))
        self.buffers = tuple(key for _, (_, keys) in self.parts for key in keys.values())  # no parameters
        self._idle: list[_Copy] = []
        self._copied = [(part, names) for part, names in self.parts if part is module or _leads_to_tensors(part)]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All that is held, by key."""
        return {
            key: part.__dict__[kind][name]
            for part, names in self.parts
            for kind, keys in zip(KINDS, names, strict=True)
            for name, key in keys.items()
        }

    def any_in(self, theta: Mapping[str, object]) -> bool:
        """Whether theta has a value for anything that is held."""
        return not theta.keys().isdisjoint(self.keys)

    def at(self, theta: Mapping[str, Tensor]) -> Module:
        """The module with theta in the place of what it holds; itself if theta has nothing of it.

        As `torch.func.functional_call` does it, without changing the module for as long as the call takes: other
        threads may be using it. Parts that hold nothing are shared.
        """
        return _Copy(self.module, self._copied).at(theta) if self.any_in(theta) else self.module

    def call(self, theta: Mapping[str, Tensor], method: str, *arguments: object) -> Any:
        """What a method of the module returns at theta.

        The copy is used again if nobody refers to it any more: what draws or differentiates later may.
        """
        if not self.any_in(theta):
            return getattr(self.module, method)(*arguments)
        try:
            copy = self._idle.pop()
        except IndexError:
            copy = _Copy(self.module, self._copied)
        found = getattr(copy.at(theta), method)(*arguments)
        if copy.emptied():
            self._idle.append(copy)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": []}


class _Copy:
    """A module of which the parts that lead to tensors are copied, to hold others; one thread uses it at a time."""

    def __init__(self, module: nn.Module, parts: Sequence[tuple[nn.Module, tuple[Names, Names]]]) -> None:
        self._copies = {id(part): object.__new__(type(part)) for part, _ in parts}
        self.module = self._copies[id(module)]
        self._parts = [(part.__dict__, names, self._copies[id(part)].__dict__) for part, names in parts]
        self._methods = [own for own, _, _ in self._parts if MethodType in map(type, own.values())]
        self._children: list[dict[str, Any]] = []
        self._references: list[int] = []

    def at(self, theta: Mapping[str, Tensor]) -> Any:
        """The module with theta in the place of what it holds, in all else as it is now."""
        children = [own["_modules"] for own, _, _ in self._parts]
        if self._children != children:
            self._children = [dict(x) for x in children]
            self._copied = [{n: self._copies.get(id(_plain(m)), m) for n, m in x.items()} for x in children]
            self._references = []
        for (own, names, state), modules in zip(self._parts, self._copied, strict=True):
            state.update(own)  # it may train no more, say
            state["_modules"] = modules
            state["_parameters"] = _replaced(own["_parameters"], names[0], theta)
            state["_buffers"] = _replaced(own["_buffers"], names[1], theta)
        for own, _, state in self._parts if self._methods else ():
            for name, value in own.items():
                if type(value) is MethodType and id(value.__self__) in self._copies:  # of a part, not of its copy
                    state[name] = MethodType(value.__func__, self._copies[id(value.__self__)])
        self._references = self._references or [*map(getrefcount, self._copies.values())]
        return self.module

    def emptied(self) -> bool:
        """Let go of the tensors it was given; not if somebody still refers to a part of it, or has changed one."""
        if self._methods or [*map(getrefcount, self._copies.values())] != self._references:
            return False
        for own, _, state in self._parts:
            if len(own) != len(state):
                return False
            state["_parameters"], state["_buffers"] = own["_parameters"], own["_buffers"]
        return True


def _replaced(held: dict[str, Any], keys: Names, theta: Mapping[str, Tensor]) -> dict[str, Any]:
    """What is held, by name, with the values that theta has for it."""
    found = held.copy()
    for name, key in keys.items():
        if key in theta:
            found[name] = theta[key]
    return found


def _leads_to_tensors(module: nn.Module) -> bool:
    """Whether a module or a part of it holds tensors, or methods, which may be of a module that does."""
    kept = (part.__dict__ for part in module.modules())
    return any(any(own[kind] for kind in KINDS) or MethodType in map(type, own.values()) for own in kept)


def _plain(module: nn.Module | None) -> nn.Module | None:
    """What `torch.compile` has wrapped: its machine code is bound to one module, not to a copy."""
    if module is None or type(module.__dict__.get("forward")) in (type(None), MethodType):
        return module
    inner = module.__dict__["_modules"].get("_orig_mod")
    if inner is None:
        raise CapabilityError(
            f"a {type(module).__name__} has a `forward` that is not its class's, bound to its own parameters: it has "
            "none at others. Define `forward` in a class."
        )
    return inner
