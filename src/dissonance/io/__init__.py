"""Reading and writing PDGs: a format is known by its suffix, or else by what the file holds."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dissonance.collector import uncollected
from dissonance.errors import DissonanceError, FormatError, one_line, suggest
from dissonance.focus import Attention, Focus
from dissonance.io import files, limits
from dissonance.lazy import lazily
from dissonance.pdg import PDG, checked_pdg

if TYPE_CHECKING:
    from dissonance.io.frames import fitted as fitted
    from dissonance.io.frames import from_pandas as from_pandas
    from dissonance.io.frames import to_pandas as to_pandas
    from dissonance.io.frames import variables_of as variables_of
    from dissonance.io.graphs import to_networkx as to_networkx
    from dissonance.io.pgmpy_objects import from_pgmpy as from_pgmpy
    from dissonance.io.pgmpy_objects import to_pgmpy as to_pgmpy
    from dissonance.io.sources import Sources as Sources
    from dissonance.io.sources import load_sources as load_sources

__all__ = ["FORMATS", "Format", "load", "load_evidence", "save", "save_evidence"]


@dataclass(frozen=True)
class Format:
    """One kind of file: the module that reads and writes it, and what tells it, its suffixes or else how it begins."""

    module: str
    suffixes: tuple[str, ...]
    begins: re.Pattern[bytes]
    named: bool = False
    """Whether what is in the file is named after it."""
    text: bool = True
    """Whether it is read word by word."""

    @property
    def _home(self) -> Any:
        return import_module(f"dissonance.io.{self.module}")

    def read(self, content: bytes, learnable: bool, name: str = "table") -> tuple[PDG, Focus]:
        """The PDG and the focus of the content of a file of that name."""
        return self._home.from_bytes(content, learnable, *((name,) if self.named else ()))

    def write(self, pdg: PDG, focus: Focus) -> bytes:
        """The content of a file that describes the PDG and the focus."""
        return self._home.to_bytes(pdg, focus)


FORMATS = {
    "json": Format("pdg_json", (".json",), re.compile(rb"\{")),
    "bif": Format("bif", (".bif",), re.compile(rb"(?:network|variable|probability)\b|//|/\*")),
    "xmlbif": Format("xmlbif", (".xmlbif", ".bifxml", ".xml"), re.compile(rb"<")),
    "uai": Format("uai", (".uai",), re.compile(rb"(?i:BAYES|MARKOV)\b")),
    "csv": Format("csv_table", (".csv",), re.compile(rb"[^\r\n{<]*[,;\t]"), named=True),
    "npz": Format("columns_npz", (".npz",), re.compile(rb"PK\x03\x04"), text=False),
    "replicate": Format("authors", (), re.compile(rb"(?!)")),
}
"""By name. "json" reads our files and the authors' replicates, whose keys tell them apart; it writes ours."""

KNOWN_SUFFIXES = (".gz", *(s for f in FORMATS.values() for s in f.suffixes))


def load(source: files.Source, *, learnable: bool = False, format: str | None = None) -> tuple[PDG, Focus]:
    """The PDG and the focus that a file describes; "-" is standard input.

    The suffix says which format (.json, .bif, .xmlbif, .uai, .csv, .npz, each also with .gz); without a known one the
    content does. `format` overrides both. An arc is a fixed `Table`, or a `SoftmaxTable` if the file gives it control;
    `learnable` makes all of them so. Whatever is wrong with the file is a FormatError of one line.

    >>> pdg, focus = load("examples/two-experts.json")
    >>> print(f"{inconsistency(pdg, focus.attention).upper:.4f}")
    0.3816
    """
    return _loaded(source, learnable, None if format is None else _named(format))[:2]


def load_with_alphas(source: files.Source, *, learnable: bool = False) -> tuple[PDG, Focus, frozenset[str]]:
    """The PDG and the focus that a file describes, and the arcs whose alpha it writes, be it 1 or another number."""
    pdg, focus, found, content = _loaded(source, learnable, None)
    alphas = getattr(import_module(f"dissonance.io.{found.module}"), "alphas", None)
    return pdg, focus, frozenset() if alphas is None else frozenset(alphas(content, pdg))


def _loaded(source: files.Source, learnable: bool, chosen: Format | None) -> tuple[PDG, Focus, Format, bytes]:
    """The PDG and the focus of a file, its format and its content."""
    content, where = files.read(source)
    try:
        found = chosen or _format_of(source, content)
        if found.text:
            limits.check_parts(content)
        with uncollected():
            return *found.read(content, learnable, source_name(where)), found, content
    except DissonanceError as error:
        raise _placed(error, where) from None


def source_name(where: str) -> str:
    """What the beliefs of a file are known by: its name without folder and suffix."""
    path = Path(where)
    while path.suffix.lower() in KNOWN_SUFFIXES:
        path = path.with_suffix("")
    return path.name


def save(path: str | os.PathLike[str], pdg: PDG, focus: Focus | None = None, *, format: str | None = None) -> None:
    """Write a PDG and a focus (by default: every arc attended with weight 1), all of the file or nothing.

    "-" is standard output.

    The suffix says which format, unless `format` does; without a suffix it is JSON. Every cpd is written as a table.
    What the format cannot hold is a FormatError: BIF and XMLBIF hold Bayesian networks, UAI also factor graphs.

    >>> import tempfile
    >>> X = Variable("X", ["no", "yes"])
    >>> path = f"{tempfile.mkdtemp()}/model.json"
    >>> save(path, PDG(Arc("p", (), X, [0.9, 0.1])))
    >>> load(path)[0].variables
    (X{no, yes},)
    """
    files.write(path, encode(path, pdg, focus, format=format))


def encode(path: str | os.PathLike[str], pdg: PDG, focus: Focus | None = None, *, format: str | None = None) -> bytes:
    """What `save` would write to the path; an error if the format cannot hold it."""
    checked_pdg(pdg)
    if not isinstance(focus, Focus | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise DissonanceError(one_line(f"expected a Focus, as Focus(attention, control), found {focus!r}."))
    named = None if format is None else _named(format)
    try:
        chosen = named or _by_suffix(path) or _without_suffix(path)
        if focus is None:
            factors = chosen is FORMATS["uai"] and _is_factor_graph(pdg)
            focus = Focus(Attention(gamma=1.0 if factors else 0.0))
        if focus.schedules.foci and chosen is not FORMATS["json"]:
            raise FormatError(f"it has foci by name ({', '.join(focus.schedules.foci)}), which only .json holds.")
        return chosen.write(pdg, focus.on(pdg))
    except (DissonanceError, UnicodeEncodeError) as error:
        raise FormatError(one_line(f"{path}: cannot be written: {error}")) from None


def load_evidence(source: files.Source, pdg: PDG) -> dict[str, Hashable]:
    """What a UAI evidence file (.uai.evid) says was observed in a model, as {variable: label}."""
    from dissonance.io import uai

    content, where = files.read(source)
    try:
        return uai.read_evidence(content, pdg)
    except DissonanceError as error:
        raise _placed(error, where) from None


def save_evidence(path: str | os.PathLike[str], evidence: Mapping[str, Hashable], pdg: PDG) -> None:
    """Write what was observed in a model as a UAI evidence file."""
    from dissonance.io import uai

    try:
        content = uai.write_evidence(evidence, pdg)
    except DissonanceError as error:
        raise FormatError(one_line(f"{path}: cannot be written: {error}")) from None
    files.write(path, content)


def _is_factor_graph(pdg: PDG) -> bool:
    return any(len(a.targets) > 1 for a in pdg.arcs) and not any(a.sources for a in pdg.arcs)


def _named(name: str) -> Format:
    if name not in FORMATS:
        raise DissonanceError(f"no format named {name!r}.{suggest(name, FORMATS)}")
    return FORMATS[name]


def _by_suffix(path: str | os.PathLike[str]) -> Format | None:
    suffixes = [s.lower() for s in Path(path).suffixes]
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    if suffixes[-1:] == [".evid"]:
        raise FormatError("is evidence, not a model: give the model, and this with --evidence (load_evidence).")
    return next((f for f in FORMATS.values() if suffixes and suffixes[-1] in f.suffixes), None)


PICTURES = (".svg", ".png", ".pdf", ".html")
"""Suffixes of files that show a model and do not hold it."""


def _without_suffix(path: str | os.PathLike[str]) -> Format:
    """JSON, unless the name has a suffix, which then is not a known one."""
    inner = Path(path).with_suffix("") if Path(path).suffix.lower() == ".gz" else Path(path)
    if not inner.suffix:
        return FORMATS["json"]
    known = " ".join(s for f in FORMATS.values() for s in f.suffixes)
    hint = " A picture of a model is drawn: `dissonance draw`, pdg.plot()." if inner.suffix.lower() in PICTURES else ""
    raise FormatError(
        f"{inner.suffix!r} is the suffix of no format of models. Known: {known}, each also with .gz; a name without a "
        f"suffix is JSON.{hint}"
    )


def format_name(source: files.Source, content: bytes) -> str:
    """The name of the format that a file of this content is read in."""
    found = _format_of(source, content)
    return next(name for name, form in FORMATS.items() if form is found)


def _format_of(source: files.Source, content: bytes) -> Format:
    if isinstance(source, str | os.PathLike) and (known := _by_suffix(source)) is not None:
        return known
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    return next((f for f in FORMATS.values() if f.begins.match(start)), FORMATS["json"])


def _placed(error: DissonanceError, where: str) -> FormatError:
    """The error with the file, and the line if it is known."""
    line = getattr(error, "line", None)
    place = where if line is None else f"{where}:{line}"
    return FormatError(one_line(f"{place}: {error}"), line)


lazily(__name__)
