"""A cpd at other parameters: its modules are copied, its tensors are not, and the cpd itself is left unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
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
        self.copied = [(part, names) for part, names in self.parts if part is module or _leads_to_tensors(part)]
        self.methods = any(MethodType in map(type, part.__dict__.values()) for part, _ in self.copied)
        self._known: tuple[list[dict[str, Any]], list[dict[str, int | nn.Module | None]]] = [], []

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
        threads may be using it. In all else the copy is what the module is now; parts that hold nothing are shared.
        """
        if not self.any_in(theta):
            return self.module
        return _Copies(self).at(theta)

    def call(self, theta: Mapping[str, Tensor], method: str, *arguments: object) -> Any:
        """What a method of the module returns at theta."""
        return getattr(self.at(theta), method)(*arguments)

    def children(self) -> list[dict[str, int | nn.Module | None]]:
        """The children of every part that is copied: the number of a part, or a module that is shared."""
        now = [part.__dict__["_modules"] for part, _ in self.copied]
        known, children = self._known
        if known != now:
            number: dict[int, Any] = {id(part): i for i, (part, _) in enumerate(self.copied)}
            children = [{n: number.get(id(_plain(m)), m) for n, m in x.items()} for x in now]
            self._known = [dict(x) for x in now], children
        return children


class HeldByOne(Held[Module]):
    """The same for a single user, who is done with the module at one theta before asking for it at the next: there is
    one copy, filled in anew for every theta."""

    @cached_property
    def _copies(self) -> _Copies[Module]:
        return _Copies(self)

    def at(self, theta: Mapping[str, Tensor]) -> Module:
        """The module with theta in the place of what it holds, until it is asked for at another theta."""
        return self.module if theta.keys().isdisjoint(self.keys) else self._copies.at(theta)


class _Copies(Generic[Module]):
    """Copies of the parts of a module that lead to tensors, which are filled in with one theta after another."""

    def __init__(self, held: Held[Module]) -> None:
        self.parts: list[Any] = [object.__new__(type(part)) for part, _ in held.copied]
        self._places = [
            (copy.__dict__, part.__dict__, {n: self.parts[m] if type(m) is int else m for n, m in below.items()}, names)
            for copy, (part, names), below in zip(self.parts, held.copied, held.children(), strict=True)
        ]
        self._copy_of = dict[int, nn.Module]()
        if held.methods:
            self._copy_of = {id(part): copy for (part, _), copy in zip(held.copied, self.parts, strict=True)}

    def at(self, theta: Mapping[str, Tensor]) -> Module:
        """The first of them, which is the module, as it is now but for theta: nothing is left of an earlier one."""
        for state, own, modules, (parameters, buffers) in self._places:
            state.clear()
            state.update(own)
            state["_modules"] = modules.copy()
            held = state["_parameters"] = own["_parameters"].copy()
            for name, key in parameters.items():
                if key in theta:
                    held[name] = theta[key]
            held = state["_buffers"] = own["_buffers"].copy()
            for name, key in buffers.items():
                if key in theta:
                    held[name] = theta[key]
            if self._copy_of:
                self._rebind(state)
        return self.parts[0]

    def _rebind(self, state: dict[str, Any]) -> None:
        """Methods that a part keeps as values are those of the copies."""
        for name, value in state.items():
            if type(value) is MethodType and id(value.__self__) in self._copy_of:
                state[name] = MethodType(value.__func__, self._copy_of[id(value.__self__)])


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
