"""A cpd at other parameters: its modules are copied, its tensors are not, and the cpd itself is left unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from types import MethodType
from typing import Generic, TypeVar

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

    @property
    def buffers(self) -> list[str]:
        """The keys of what is held and is no parameter."""
        return [key for _, (_, keys) in self.parts for key in keys.values()]

    def any_in(self, theta: Mapping[str, object]) -> bool:
        """Whether theta has a value for anything that is held."""
        return any(key in theta for key in self.keys)

    def at(self, theta: Mapping[str, Tensor]) -> Module:
        """The module with theta in the place of what it holds; itself if theta has nothing of it.

        As `torch.func.functional_call` does it, without changing the module for as long as the call takes: other
        threads may be using it. Parts that hold nothing are shared.
        """
        if not self.any_in(theta):
            return self.module
        copies: dict[int, nn.Module] = {}
        for part, names in self._copied:
            made = copies[id(part)] = object.__new__(type(part))
            state = part.__dict__.copy()
            object.__setattr__(made, "__dict__", state)  # `nn.Module.__setattr__` is slow
            for kind, keys in zip(KINDS, names, strict=True):
                state[kind] = {**state[kind], **{n: theta[key] for n, key in keys.items() if key in theta}}
        for made in copies.values():
            state = made.__dict__
            if state["_modules"]:
                state["_modules"] = {n: copies.get(id(_plain(m)), m) for n, m in state["_modules"].items()}
            if MethodType in map(type, state.values()):
                for name, value in state.items():
                    if type(value) is MethodType and id(value.__self__) in copies:  # of a part, not of its copy
                        state[name] = MethodType(value.__func__, copies[id(value.__self__)])
        return copies[id(self.module)]  # pyright: ignore[reportReturnType]


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
