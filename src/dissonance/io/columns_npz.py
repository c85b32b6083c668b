"""PDGs in columns as .npz files: arrays of numpy, which a million arcs are read from and written to in a second.

    sizes            values of each variable               (variables,)
    sources.K        numbers of variables, column K        (arcs, sources)
    targets.K                                              (arcs, targets)
    tables.K         probabilities of what cannot move     (arcs, source sizes..., target sizes...)
    logits.K         instead of these, of what can         (the same)
    beta.K, alpha.K  how much an arc is attended to        (arcs,)
    chi.K            how freely it may move                (arcs,)
    gamma            of the attention                      ()
    names.K          names of the arcs, if they have any   (arcs,)
    variables        names, if they have any               (variables,)
    labels           their values in JSON, if these are not 0, 1, ...

Columns are numbered from 0. Any program that knows numpy can write one; sizes, sources, targets and tables are enough.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dissonance.columns import Column, ColumnarPDG
from dissonance.columns.weights import ColumnWeights
from dissonance.errors import DissonanceError, FormatError
from dissonance.focus import Attention, Control, Focus
from dissonance.io import limits
from dissonance.pdg import PDG
from dissonance.variables import Variable, are_numbers

WHOLE = ("sizes", "gamma", "variables", "labels")
OF_COLUMNS = ("sources", "targets", "tables", "logits", "beta", "alpha", "chi", "names")

DAMAGED = (ValueError, OSError, EOFError, KeyError, RuntimeError, MemoryError, zlib.error, zipfile.BadZipFile)
"""What numpy and zipfile raise for a file that is damaged."""


def from_bytes(content: bytes, learnable: bool) -> tuple[PDG, Focus]:
    """The PDG and the focus that a file describes."""
    held = _arrays(content)
    count = len({key.partition(".")[2] for key in held if "." in key})
    for key in held:
        kind, _, number = key.partition(".")
        known = kind in OF_COLUMNS and number.isdigit() and int(number) < count if "." in key else kind in WHOLE
        if not known:
            raise FormatError(f"holds an array {key!r}, which is none of a PDG in columns.")
    if not count:
        raise FormatError("holds no column of arcs.")
    sizes = _needed(held, "sizes").astype(np.int64)
    columns = [_column(held, k) for k in range(count)]
    pdg: PDG = PDG.from_columns(*columns, variables=_variables(held, sizes))
    return (pdg.learnable() if learnable else pdg), _focus(held, pdg, columns)


def _arrays(content: bytes) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            unpacked = sum(member.file_size for member in packed.infolist())
            limits.check_count(unpacked, "bytes of arrays", most=limits.MAX_UNPACKED)
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except DAMAGED as error:
        raise FormatError(f"is not a whole .npz file of arrays: {error}.") from None


def _needed(held: dict[str, Any], key: str) -> Any:
    if key not in held:
        raise FormatError(f"has no array {key!r}.")
    return held[key]


def _column(held: dict[str, Any], k: int) -> Column:
    sources, targets = (_needed(held, f"{name}.{k}") for name in ("sources", "targets"))
    kind = "logits" if f"logits.{k}" in held else "tables"
    tables = _needed(held, f"{kind}.{k}")
    for name, side in (("sources", sources), ("targets", targets)):
        if side.dtype.kind not in "iu":
            raise FormatError(f"{name}.{k} must be whole numbers, found {side.dtype}.")
    if tables.dtype.kind != "f":
        raise FormatError(f"{kind}.{k} must be numbers, found {tables.dtype}.")
    names = held.get(f"names.{k}")
    try:
        return Column(
            sources,
            targets,
            **{kind: tables},
            names=None if names is None else names.astype(str).tolist(),
            beta=held.get(f"beta.{k}", 1.0),
            learnable=kind == "logits",
        )
    except (DissonanceError, ValueError) as error:
        raise FormatError(f"column {k}: {error}") from None


def alphas(content: bytes, pdg: PDG) -> list[str]:
    """The arcs whose alpha a file writes."""
    held, names, found = _arrays(content), iter(pdg.arc_names), list[str]()
    for k in range(len(held)):
        mine = list(islice(names, len(held.get(f"sources.{k}", ()))))
        found += mine if f"alpha.{k}" in held else ()
    return found


def _variables(held: dict[str, Any], sizes: Any) -> Any:
    """The variables, or their sizes if they are known by their numbers."""
    if "variables" not in held:
        return sizes
    names = held["variables"].astype(str).tolist()
    labels = json.loads(str(held["labels"])) if "labels" in held else [None] * len(names)
    if not len(names) == len(labels) == len(sizes):
        raise FormatError("sizes, variables and labels must be of one length.")
    made = [
        Variable(name, int(size) if given is None else given)
        for name, size, given in zip(names, sizes, labels, strict=True)
    ]
    return made


def _focus(held: dict[str, Any], pdg: PDG, columns: list[Column]) -> Focus:
    """The weights; those that are 1 for all are left out."""
    gamma = float(held.get("gamma", 0.0))
    alpha = [held.get(f"alpha.{k}", np.ones(len(c))) for k, c in enumerate(columns)]
    chi = [held.get(f"chi.{k}") for k in range(len(columns))]
    names = pdg.confidence if any(x is not None for x in chi) or any((x != 1).any() for x in alpha) else {}
    weights = dict(zip(names, np.concatenate(alpha).tolist(), strict=True)) if names else {}
    control: dict[str, float] = {}
    if any(x is not None for x in chi):
        every = np.concatenate([np.zeros(len(c)) if x is None else x for c, x in zip(columns, chi, strict=True)])
        given = dict(zip(names, every.tolist(), strict=True))
        control = {n: x for n, x in given.items() if x} or given  # nothing may move, which is not: nothing is said
    return Focus(Attention(alpha=weights, gamma=gamma).on(pdg), Control(control))


def to_bytes(pdg: PDG, focus: Focus) -> bytes:
    """The content of a file that describes the PDG and the focus."""
    made = ColumnarPDG.of(pdg)
    spelled = focus.attention.on(pdg)
    names = made.arc_names
    arrays: dict[str, Any] = {"sizes": made.sizes}
    if spelled.gamma:
        arrays["gamma"] = np.float64(spelled.gamma)
    by_number, arcs_by_number = made.implicit_names
    if not by_number:
        arrays["variables"] = _texts([v.name for v in made.variables])
        labels = [None if are_numbers(v.finite.labels) else list(v.finite.labels) for v in made.variables]
        if any(x is not None for x in labels):
            arrays["labels"] = np.array(_json(labels))
    controls = _numbers(focus.control, pdg)
    first = 0
    for k, column in enumerate(made.columns):
        mine = names[first : first + len(column)]
        first += len(column)
        arrays |= {f"sources.{k}": column.sources, f"targets.{k}": column.targets}
        arrays[f"{'logits' if column.learnable else 'tables'}.{k}"] = column.tables.detach().numpy()
        beta, alpha = (np.array([w.get(n, 0.0) for n in mine]) for w in (spelled.beta, spelled.alpha))
        if (beta != 1).any():
            arrays[f"beta.{k}"] = beta
        if (alpha != 1).any():
            arrays[f"alpha.{k}"] = alpha
        if not arcs_by_number:
            arrays[f"names.{k}"] = _texts(mine)
        if controls:
            arrays[f"chi.{k}"] = np.array([controls.get(n, 0.0) for n in mine])
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _numbers(control: Control, pdg: PDG) -> Mapping[str, float]:
    """The control of every arc, whose table is its only parameter."""
    control.check(pdg)
    for name, chi in () if isinstance(control.chi, ColumnWeights) else control.chi.items():
        if isinstance(chi, torch.Tensor):
            raise DissonanceError(f"control[{name!r}] is a tensor, and columns hold one number for every arc.")
    return control.largest(pdg)


def _texts(names: list[str]) -> npt.NDArray[np.str_]:
    """Names as an array, which does not know of zeros at their ends."""
    made = np.array(names, dtype=str)
    if odd := next((n for n, kept in zip(names, made.tolist(), strict=True) if n != kept), None):
        raise FormatError(f"a .npz file cannot hold the name {odd!r}, which ends in a zero: use .json.")
    return made


def _json(labels: list[list[Any] | None]) -> str:
    """The values of all variables; texts, numbers, True, False and None come back as they are."""
    for x in chain.from_iterable(x for x in labels if x is not None):
        if not isinstance(x, str | int | float | None) or x != x:
            raise FormatError(f"a .npz file cannot hold the value {x!r}: it holds texts and numbers.")
    return json.dumps(labels)
