"""The protocol of scikit-learn's estimators, without scikit-learn: parameters by name, clones, one-line reprs."""

from __future__ import annotations

import inspect
import reprlib
import sys
from functools import cache
from typing import Any, TypeVar

from dissonance.errors import DissonanceError, suggest

Self = TypeVar("Self", bound="Estimator")


class NotFittedError(DissonanceError, AttributeError):
    """An estimator was asked for something that only `fit` finds.

    Where scikit-learn is imported it is scikit-learn's error of that name as well.
    """


class Estimator:
    """A constructor that only stores its arguments; everything else is found by `fit` and ends with an underscore.

    scikit-learn's `clone`, pipelines and searches over parameters work with it.
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The parameters of the constructor, with their defaults."""
        found = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return {p.name: p.default for p in found}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor by name; no parameter is an estimator, so that `deep` changes nothing."""
        return {name: getattr(self, name) for name in sorted(self._defaults())}

    def set_params(self: Self, **params: Any) -> Self:
        """Change arguments of the constructor; they are checked by the next `fit`."""
        known = self._defaults()
        for name, value in params.items():
            if name not in known:
                raise DissonanceError(f"{type(self).__name__} has no parameter {name!r}.{suggest(name, known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = {n: " ".join(reprlib.repr(getattr(self, n)).split()) for n in self._defaults()}
        changed = [f"{n}={shown[n]}" for n, default in self._defaults().items() if shown[n] != reprlib.repr(default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn needs to know; only scikit-learn asks."""
        from sklearn.utils import InputTags, Tags, TargetTags

        kind, target = "density_estimator", TargetTags(required=False)
        return Tags(estimator_type=kind, target_tags=target, input_tags=InputTags(**self._input()))

    def _input(self) -> dict[str, bool]:
        """What kind of X `fit` takes, in the words of scikit-learn's `InputTags`."""
        return {}

    def _missing_fit(self) -> NotFittedError:
        """The error that says that `fit` comes first."""
        message = f"this {type(self).__name__} is not fitted yet: call fit(X) first."
        return _error(sys.modules.get("sklearn.exceptions"))(message)


@cache
def _error(theirs: Any) -> type[NotFittedError]:
    """Our error, and theirs in one where there is one."""
    return NotFittedError if theirs is None else type("NotFittedError", (NotFittedError, theirs.NotFittedError), {})
