"""Where resolved beliefs go: one file, or a folder with a file for every source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dissonance.arc import Arc
from dissonance.cli.output import log
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Focus
from dissonance.io import encode, files, format_name, load, source_name
from dissonance.io.merging import relabelled
from dissonance.io.sources import Sources
from dissonance.pdg import PDG


@dataclass(frozen=True)
class Destination:
    """One file for all beliefs; or a folder, with a file of its own for every source, in the format it came in.

    The file of a source in which nothing moved is a copy, byte for byte.
    """

    out: Path
    origins: Mapping[str, Path] | None
    """By source, the file it came from; None if `out` is a file."""

    @classmethod
    def of(cls, out: str, models: Sequence[str]) -> Destination:
        """Where --out says, if that can be written to."""
        if out == "-":
            raise DissonanceError("--out -: expected a file; standard output is for what was resolved.")
        path = Path(out)
        if out.endswith("/") and path.name:
            if path.exists() and not path.is_dir():
                raise DissonanceError(f"--out {out}: is a file, not a folder.")
            if "-" in models:
                raise DissonanceError(f"--out {out}: standard input has no name for a file in a folder.")
            for m in models:
                if (path / Path(m).name).resolve() == Path(m).resolve():
                    raise DissonanceError(f"--out {out}: would write over {m}; give another folder.")
            return cls(path, {source_name(m): Path(m) for m in models})
        if not path.name or path.is_dir():
            raise DissonanceError(f"--out {out}: expected a file, found a folder. A folder's name ends in /.")
        return cls(path, None)

    def beside(self, pattern: str) -> Path:
        """A file beside it."""
        return self.out.with_name(pattern.format(self.out.name))

    def encode(self, given: Sources, pdg: PDG) -> dict[Path, bytes]:
        """What would be written; an error if a format cannot hold it."""
        if self.origins is None:
            return {self.out: encode(self.out, pdg, given.focus)}
        found: dict[Path, bytes] = {}
        for source, origin in self.origins.items():
            path, content = self.out / origin.name, files.read(origin)[0]
            if not _moved(given, pdg, source):
                found[path] = content
                continue
            form = format_name(origin, content)
            part, focus = _part(given, pdg, source, load(origin, format=form))
            if form == "csv":  # what moved is no sample any more, and a file of probabilities has no weight
                focus = replace(focus, attention=Attention(gamma=focus.attention.gamma))
            found[path] = encode(path, part, focus, format=form)
        return found

    def save(self, given: Sources, pdg: PDG) -> None:
        """Write the resolved beliefs."""
        content = self.encode(given, pdg)
        if self.origins is not None:
            self.out.mkdir(parents=True, exist_ok=True)
        for path, data in content.items():
            files.write(path, data)
        for path, name, beta in self._unweighted(given, pdg):
            log.warning(
                "%s holds probabilities, believed with beta = 1, in the place of counts: --attend %s=%g, where it is "
                "read, believes them as before.",
                path,
                name,
                beta,
            )

    def _unweighted(self, given: Sources, pdg: PDG) -> Iterator[tuple[Path, str, float]]:
        """The CSV files whose beliefs moved and had another weight than a table of probabilities has."""
        for source, origin in (self.origins or {}).items():
            if _moved(given, pdg, source) and format_name(origin, files.read(origin)[0]) == "csv":
                (name,) = given.arcs[source]
                if (beta := given.focus.attention.beta.get(name, 0.0)) != 1:
                    yield self.out / origin.name, source, beta


def _moved(given: Sources, pdg: PDG, source: str) -> bool:
    return any(pdg[n] is not given.pdg[n] for n in given.arcs[source])


def _part(given: Sources, pdg: PDG, source: str, own: tuple[PDG, Focus]) -> tuple[PDG, Focus]:
    """What the file of a source says, with the beliefs of the PDG in the place of its own.

    Names, variables, weights, control and schedules stay; values keep their order, unless other files know more.
    """
    before, focus = own
    merged = {v.name: v for v in pdg.variables}
    known = {v.name: v if v.is_finite and v.size == merged[v.name].size else merged[v.name] for v in before.variables}
    arcs: list[Arc] = []
    for name, a in zip(given.arcs[source], before.arcs, strict=True):
        now = relabelled(known, pdg[name])
        arcs.append(Arc(a.name, now.sources, now.targets, now.cpd))
    attention = focus.attention.replace(gamma=given.focus.attention.gamma)
    return PDG(*arcs, variables=known.values()), replace(focus, attention=attention)
