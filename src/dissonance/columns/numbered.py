"""Many things with names, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")


class Numbered(Mapping[str, T], Generic[T]):
    """Objects by name or by number, each made when it is first asked for; `names` None: a letter and the number."""

    def __init__(self, count: int, letter: str, names: Sequence[str] | None, make: Callable[[int], T]) -> None:
        self._count, self._letter, self._names, self._make = count, letter, names, make
        self._made: dict[int, T] = {}

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[str]:
        return iter(self._names) if self._names is not None else (f"{self._letter}{i}" for i in range(self._count))

    def __getitem__(self, name: str) -> T:
        return self.at(self.index(name))

    def index(self, name: str) -> int:
        """The number of a name."""
        return self.number[name] if self._names is not None else self._parsed(name)

    def __contains__(self, name: object) -> bool:
        if self._names is not None:
            return name in self.number
        try:
            return self._parsed(name) >= 0
        except KeyError:
            return False

    def _parsed(self, name: object) -> int:
        digits = name[1:] if isinstance(name, str) and name[:1] == self._letter else ""
        if not (digits.isascii() and digits.isdigit() and int(digits) < self._count and str(int(digits)) == digits):
            raise KeyError(name)
        return int(digits)

    @property
    def named(self) -> bool:
        """Whether names were given."""
        return self._names is not None

    @cached_property
    def number(self) -> dict[str, int]:
        """The number of each name."""
        return {name: i for i, name in enumerate(self)}

    def name(self, i: int) -> str:
        """The name of that number."""
        return f"{self._letter}{i}" if self._names is None else self._names[i]

    def at(self, i: int) -> T:
        """The object of that number."""
        if i not in self._made:
            self._made[i] = self._make(i)
        return self._made[i]


class Chosen(Sequence[str]):
    """The names of some of them, by their numbers."""

    def __init__(self, of: Numbered[Any], numbers: npt.NDArray[np.int64]) -> None:
        self._of, self._numbers = of, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, i: Any) -> Any:
        return self._of.name(int(self._numbers[i]))
