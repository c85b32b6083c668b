"""Workers do pieces of work that do not depend on each other; and the plainest of them, this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

Watch = Callable[[float], None]
"""Called with how much of a piece of work is done, up to 1."""


class Workers(ABC):
    """Who does pieces of work. `same_files`: whether they see the files that this process sees."""

    same_files = True

    @abstractmethod
    def each(
        self,
        function: Callable[[Item, Watch], Result],
        items: Iterable[Item],
        finished: Callable[[int, Result], None],
        watch: Callable[[int, float], None] = lambda i, part: None,
    ) -> None:
        """Do `function(item, watch)` for all items; `finished(i, result)` is called here when item i is done, in any
        order, and `watch(i, part)` now and then where that is known. Functions must be importable by name."""


class Here(Workers):
    """This process, one item after another."""

    def each(
        self,
        function: Callable[[Any, Watch], Any],
        items: Iterable[Any],
        finished: Callable[[int, Any], None],
        watch: Callable[[int, float], None] = lambda i, part: None,
    ) -> None:
        """Do `function(item, watch)` for all items, in order."""
        for i, item in enumerate(items):
            finished(i, function(item, lambda part, i=i: watch(i, part)))
