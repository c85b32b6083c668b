"""Where resolved beliefs go: one file, or a folder with a file for every source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from dissonance.arc import Arc
from dissonance.errors import DissonanceError
from dissonance.focus import Attention, Control, Focus
from dissonance.io import encode, files, source_name
from dissonance.io.sources import Sources, own_alpha
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
            path = self.out / origin.name
            still = all(pdg[n] is given.pdg[n] for n in given.arcs[source])
            found[path] = files.read(origin)[0] if still else encode(path, *_part(given, pdg, source, path))
        return found

    def save(self, given: Sources, pdg: PDG) -> None:
        """Write the resolved beliefs."""
        content = self.encode(given, pdg)
        if self.origins is not None:
            self.out.mkdir(parents=True, exist_ok=True)
        for path, data in content.items():
            files.write(path, data)


def _part(given: Sources, pdg: PDG, source: str, path: Path) -> tuple[PDG, Focus]:
    """The beliefs of one source, under the names and weights of its own file; a table alone has no weights."""
    arcs: list[Arc] = []
    beta: dict[str, float] = {}
    alpha: dict[str, float] = {}
    chi: dict[str, float | Tensor] = {}
    attention, control = given.focus.attention, given.focus.control
    for name in given.arcs[source]:
        own, arc = name.removeprefix(f"{source}/"), pdg[name]
        arcs.append(Arc(own, arc.sources, arc.targets, arc.cpd))
        beta[own] = 1.0 if ".csv" in path.name.lower() else attention.beta.get(name, 0.0)
        alpha[own] = own_alpha(given, name)
        if name in control.chi:
            chi[own] = control.chi[name]
    mine = {v.name for a in arcs for v in a.scope}
    part = PDG(*arcs, variables=[v for v in pdg.variables if v.name in mine])
    return part, Focus(Attention.only(beta, alpha, attention.gamma), Control(chi))
