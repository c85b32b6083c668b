"""Models to open: the examples that come with the package, and networks that other installed libraries hold."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from dissonance.errors import DissonanceError, suggest

TITLES = {
    "smoking.json": "Six sources on smoking, tar and cancer",
    "two-experts.json": "Two experts on whether it will rain",
    "sensors.json": "Sensors of a room that disagree",
    "shoes.json": "Height and shoe size: beliefs about numbers",
}
"""The examples, in the order in which they are offered."""

NETWORKS = {"pgmpy": "utils/example_models"}
"""By library: the folder in it that has published networks."""


def listed() -> list[dict[str, str]]:
    """The examples, with what they are about."""
    return [{"name": n, "title": t} for n, t in TITLES.items()]


def published_networks() -> list[dict[str, str]]:
    """The published networks that are on this machine, with the library that brought them."""
    return [{"name": n, "title": f"{n}, of {library}"} for n, (library, _) in _networks().items()]


def path_of(name: str) -> Path:
    """The file of an example or of a published network."""
    if name in TITLES:
        return _home() / name
    found = _networks()
    if name not in found:
        raise DissonanceError(f"no example named {name!r}.{suggest(name, [*TITLES, *found])}")
    return found[name][1]


def _home() -> Path:
    """Where the examples are: in the package; in a checkout, beside it."""
    packaged = Path(__file__).parent / "examples"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "examples"


def _networks() -> dict[str, tuple[str, Path]]:
    found: dict[str, tuple[str, Path]] = {}
    for library, inside in NETWORKS.items():
        spec = find_spec(library)
        if spec is None or spec.origin is None:
            continue
        for path in sorted((Path(spec.origin).parent / inside).glob("*.bif*")):
            found[path.name.partition(".")[0]] = library, path
    return found
