"""The PDG file: JSON, version 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec
import torch
from msgspec import UNSET, UnsetType

from dissonance.arc import Arc
from dissonance.cpds import Factor, LinearGaussian
from dissonance.errors import CapabilityError, DissonanceError, FormatError, suggest
from dissonance.focus import Attention, Control, Focus, Schedules
from dissonance.io import strict
from dissonance.io.limits import MAX_LABELS, MAX_VALUES, check_count
from dissonance.io.lines import at
from dissonance.pdg import PDG
from dissonance.variables import Euclidean, Finite, Variable, are_numbers

FORMAT = "dissonance.pdg"
VERSION = 1
EMPTY = msgspec.Raw()


class VariableRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A variable: its values, or how many there are; or the dimension of a Euclidean one."""

    name: str
    values: list[str] | UnsetType = UNSET
    size: int | UnsetType = UNSET
    dim: int | UnsetType = UNSET


class GaussianRecord(msgspec.Struct, forbid_unknown_fields=True):
    """N(A s + b, Sigma): rows for the dimensions of the targets, columns of A for those of the sources."""

    b: list[float]
    Sigma: list[list[float]]
    A: list[list[float]] | UnsetType = UNSET


class ArcRecord(msgspec.Struct, forbid_unknown_fields=True):
    """An arc with its table, its factor (a table that need not sum to 1) or its linear Gaussian, and its weights."""

    name: str
    targets: list[str]
    table: msgspec.Raw = msgspec.Raw()
    factor: msgspec.Raw = msgspec.Raw()
    linear_gaussian: GaussianRecord | UnsetType = UNSET
    sources: list[str] = []
    alpha: float | UnsetType = UNSET
    beta: float | str = 1.0
    control: float | str | UnsetType = UNSET


class FocusRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A focus: weights by arc; an arc that is left out is not attended to, and not moved."""

    beta: dict[str, float | str] = {}
    alpha: dict[str, float] = {}
    gamma: float = 0.0
    control: dict[str, float | str] = {}


class Document(msgspec.Struct, forbid_unknown_fields=True):
    """The whole file."""

    format: str
    version: int
    variables: list[VariableRecord]
    arcs: list[ArcRecord]
    gamma: float = 0.0
    foci: dict[str, FocusRecord] = {}
    schedules: dict[str, list[str]] = {}


class Header(msgspec.Struct):
    """What must be right before anything else is looked at."""

    format: str | UnsetType = UNSET
    version: int | UnsetType = UNSET


# -- reading -----------------------------------------------------------------------------------------------------------


def from_bytes(content: bytes, learnable: bool) -> tuple[PDG, Focus]:
    """The PDG and the focus of a file's content: one of ours, or a replicate of the authors', which its keys tell."""
    content = strict.text(content)
    try:
        document = strict.decode(content, Document)
    except FormatError:
        keys = strict.decode(content, strict.Keys)
        if keys.format is None and keys.graph and keys.cpds:
            from dissonance.io import authors

            return authors.from_bytes(content, learnable)
        _check_header(strict.decode(content, Header))
        raise
    _check_header(document)
    check_count(len(document.variables), "variables")
    check_count(len(document.arcs), "arcs")
    check_count(sum(len(v.values) for v in document.variables if v.values is not UNSET), "values", most=MAX_LABELS)
    strict.check_keys(content, _keys(content))
    known = strict.variables_by_name(content, ["variables"], _variables(content, document.variables))
    beta: dict[str, float] = {}
    alpha: dict[str, float] = {}
    chi: dict[str, float] = {}
    arcs: list[Arc] = []
    schedules = _schedules(document)
    moved = {n for f in schedules.foci.values() for n, x in f.control.chi.items() if x}
    for i, a in enumerate(document.arcs):
        with at(content, "arcs", i):
            if a.name in beta:
                raise FormatError(f"two arcs are named {a.name!r}.")
            beta[a.name], alpha[a.name] = _weight(a, "beta", a.beta), 1.0 if a.alpha is UNSET else a.alpha
            if a.control is not UNSET:
                chi[a.name] = _weight(a, "control", a.control)
            movable = learnable or chi.get(a.name, 0.0) > 0 or a.name in moved
            _check_belief(a)
            arcs.append(_table(a, known, movable) if a.linear_gaussian is UNSET else _gaussian(a, known, movable))
    pdg = PDG(*arcs, variables=known.values())
    focus = Focus(Attention.only(beta, alpha, document.gamma), Control(chi), schedules=schedules)
    for name, one in schedules.foci.items():
        try:
            one.check(pdg)
        except DissonanceError as error:
            raise FormatError(f"focus {name!r}: {error}") from None
    return pdg, focus


def alphas(content: bytes, pdg: PDG) -> list[str]:
    """The arcs whose alpha a file writes."""
    content = strict.text(content)
    try:
        document = strict.decode(content, Document)
    except FormatError:
        from dissonance.io import authors

        return authors.alphas(content, pdg)
    return [a.name for a in document.arcs if a.alpha is not UNSET]


def _schedules(document: Document) -> Schedules:
    foci: dict[str, Focus] = {}
    for name, f in document.foci.items():
        beta, chi = (
            {a: _number(f"focus {name!r}, {key} of {a!r}", x) for a, x in given.items()}
            for key, given in (("beta", f.beta), ("control", f.control))
        )
        try:
            foci[name] = Focus(Attention.only(beta, f.alpha, f.gamma), Control(chi))
        except DissonanceError as error:
            raise FormatError(f"focus {name!r}: {error}") from None
    try:
        return Schedules(foci, {name: tuple(order) for name, order in document.schedules.items()})
    except DissonanceError as error:
        raise FormatError(str(error)) from None


def _keys(content: bytes) -> int:
    """How many different keys the objects of a file have."""
    top: dict[str, msgspec.Raw] = strict.decode(content, dict[str, msgspec.Raw])
    records: list[dict[str, msgspec.Raw]] = []
    for key in ("variables", "arcs"):
        records += strict.decode(top[key], list[dict[str, msgspec.Raw]])
    inside = [r["linear_gaussian"] for r in records if "linear_gaussian" in r]
    objects = [top, *records, *(strict.decode(x, dict[str, msgspec.Raw]) for x in inside)]
    if "schedules" in top:
        objects.append(strict.decode(top["schedules"], dict[str, msgspec.Raw]))
    if "foci" in top:
        foci: dict[str, dict[str, msgspec.Raw]] = strict.decode(top["foci"], dict[str, dict[str, msgspec.Raw]])
        parts = [x for f in foci.values() for key, x in f.items() if key != "gamma"]
        objects += [foci, *foci.values(), *(strict.decode(x, dict[str, msgspec.Raw]) for x in parts)]
    return sum(map(len, objects))


def _check_belief(a: ArcRecord) -> None:
    """An arc has one belief."""
    if a.table and not a.factor and a.linear_gaussian is UNSET:
        return
    there = {"table": a.table != EMPTY, "factor": a.factor != EMPTY, "linear_gaussian": a.linear_gaussian is not UNSET}
    given = [key for key, is_there in there.items() if is_there]
    if not given:
        raise FormatError(f"arc {a.name!r}: the key 'table' is missing.")
    if len(given) > 1:
        raise FormatError(f'arc {a.name!r} has both "{given[0]}" and "{given[1]}"; leave one of them out.')


def _table(a: ArcRecord, known: dict[str, Variable], learnable: bool) -> Arc:
    for n in (*a.sources, *a.targets):
        if n in known and not known[n].is_finite:
            raise FormatError(f'arc {a.name!r} has a table, but {n!r} is {known[n].domain}: use "linear_gaussian".')
    factor = a.factor != EMPTY
    return strict.arc(a.name, a.sources, a.targets, a.factor if factor else a.table, known, learnable, factor)


def _gaussian(a: ArcRecord, known: dict[str, Variable], learnable: bool) -> Arc:
    given = a.linear_gaussian
    assert given is not UNSET
    sources, targets = strict.ends(a.name, a.sources, a.targets, known)
    try:
        cpd = LinearGaussian(None if given.A is UNSET else given.A, given.b, given.Sigma, learnable=learnable)
        return Arc(a.name, sources, targets, cpd)
    except DissonanceError as error:
        line = str(error).removeprefix(f"arc {a.name!r}: ")
        raise FormatError(line if line.startswith("arc ") else f"arc {a.name!r}: {line}") from None


def _check_header(header: Header | Document) -> None:
    if header.format is UNSET:
        raise FormatError(f'is not a PDG: it has no key "format"; a PDG file says "format": "{FORMAT}".')
    if header.format != FORMAT:
        raise FormatError(f'its "format" is {header.format!r}, not "{FORMAT}".{suggest(header.format, [FORMAT])}')
    if header.version is UNSET:
        raise FormatError(f'it has no key "version"; the present one is {VERSION}.')
    if header.version > VERSION:
        raise FormatError(
            f'its "version" is {header.version}; this dissonance reads up to {VERSION}: install a newer one.'
        )
    if header.version < VERSION:
        raise FormatError(f'its "version" is {header.version}; the first one is {VERSION}.')


def _variables(content: bytes, records: Iterable[VariableRecord]) -> Iterator[Variable]:
    """The variables, sharing one domain for each size."""
    numbered: dict[int, Finite] = {}
    for i, v in enumerate(records):
        with at(content, "variables", i):
            made = _variable(v, numbered)
        yield made


def _variable(v: VariableRecord, numbered: dict[int, Finite]) -> Variable:
    given = [k for k in ("values", "size", "dim") if getattr(v, k) is not UNSET]
    if len(given) > 1:
        raise FormatError(f'variable {v.name!r} has both "{given[0]}" and "{given[1]}"; leave one of them out.')
    if not v.name:
        raise FormatError("a variable needs a non-empty name, found ''.")
    if v.values is not UNSET:
        return _labelled(v.name, v.values)
    if v.size is not UNSET:
        if v.size not in numbered:
            _check_size(v.name, v.size, sum(numbered))
            numbered[v.size] = Finite(tuple(range(v.size)))
        return Variable(v.name, numbered[v.size])
    if v.dim is UNSET:
        raise FormatError(f'variable {v.name!r} needs either "values" or "size".')
    if not 1 <= v.dim <= MAX_VALUES:
        raise FormatError(f"variable {v.name!r} has dim {v.dim}; it needs at least 1, at most {MAX_VALUES}.")
    return Variable(v.name, Euclidean(v.dim))


def _check_size(name: str, size: int, others: int) -> None:
    if size < 1:
        raise FormatError(f"variable {name!r} has size {size}; it needs at least 1.")
    if size + others > MAX_VALUES:
        raise FormatError(f"variable {name!r} has size {size}; the sizes in a file add up to at most {MAX_VALUES}.")


def _labelled(name: str, labels: list[str]) -> Variable:
    if not labels:
        raise FormatError(f"variable {name!r} has no values; it needs at least one.")
    if len(set(labels)) != len(labels):
        seen: set[str] = set()
        twice = next(x for x in labels if x in seen or seen.add(x))
        raise FormatError(f"variable {name!r} has the value {twice!r} twice.")
    return Variable(name, labels)


def _weight(record: ArcRecord, key: str, given: float | str) -> float:
    return _number(f"arc {record.name!r}: {key}", given)


def _number(what: str, given: float | str) -> float:
    if isinstance(given, float | int):
        return float(given)
    if given != "inf":
        raise FormatError(f'{what} is {given!r}; it must be a number or "inf".')
    return math.inf


# -- writing -----------------------------------------------------------------------------------------------------------


def to_bytes(pdg: PDG, focus: Focus) -> bytes:
    """The content of a file that describes the PDG and the focus: a line for each variable and each arc."""
    attention, control = focus.attention, focus.control
    foci = [f.on(pdg) for f in focus.schedules.foci.values()]
    named = [n for f in foci for n in (*f.attention.beta, *f.attention.alpha, *f.control.chi)]
    for name in (*attention.beta, *attention.alpha, *control.chi, *named):
        if name not in pdg:
            raise FormatError(f"the focus names an arc {name!r} that the PDG does not have.")
    if attention.varying:
        raise FormatError(
            f"the attention to {next(iter(attention.varying))!r} depends on the sample; a file holds one number an arc."
        )
    variables = _lines(_variable_record(v) for v in pdg.variables)
    arcs = _lines(_arc_record(a, attention, control) for a in pdg.arcs)
    return (
        f'{{\n  "format": "{FORMAT}",\n  "version": {VERSION},\n  "gamma": {attention.gamma!r},\n'
        f'  "variables": {variables},\n  "arcs": {arcs}{_written_schedules(focus.schedules)}\n}}\n'
    ).encode()


def _written_schedules(schedules: Schedules) -> str:
    """The foci and schedules of a file, if it has any: a line each."""
    found = ""
    for key, records in (
        ("foci", {n: _focus_record(n, f) for n, f in schedules.foci.items()}),
        ("schedules", {n: list(order) for n, order in schedules.orders.items()}),
    ):
        if records:
            lines = [
                f"{msgspec.json.encode(n).decode()}: {msgspec.json.encode(r).decode()}" for n, r in records.items()
            ]
            found += f',\n  "{key}": {{\n    ' + ",\n    ".join(lines) + "\n  }"
    return found


def _focus_record(name: str, focus: Focus) -> dict[str, object]:
    odd = [n for n, chi in focus.control.chi.items() if not isinstance(chi, float | int)]
    if odd or focus.context or focus.attention.varying:
        what = f"a control for each component of {odd[0]!r}" if odd else "a context, or attention that varies"
        raise FormatError(f"focus {name!r} has {what}; a file holds one number an arc.")
    beta, alpha = focus.attention.beta, focus.attention.alpha
    return {
        "beta": {n: _written(x) for n, x in beta.items() if x},
        "alpha": {n: x for n, x in alpha.items() if x},
        "gamma": focus.attention.gamma,
        "control": {n: _written(float(x)) for n, x in focus.control.chi.items()},  # pyright: ignore[reportArgumentType]
    }


def _lines(records: Iterable[dict[str, object]]) -> str:
    lines = [msgspec.json.encode(r).decode() for r in records]
    return "[\n    " + ",\n    ".join(lines) + "\n  ]" if lines else "[]"


def _variable_record(v: Variable) -> dict[str, object]:
    if isinstance(v.domain, Euclidean):
        return {"name": v.name, "dim": v.domain.dim}
    if not v.is_finite:
        raise FormatError(f"variable {v.name!r} is {v.domain}; a JSON file holds finite and Euclidean variables only.")
    labels = v.finite.labels
    if are_numbers(labels):
        return {"name": v.name, "size": v.size}
    values = [str(x) for x in labels]
    if len(set(values)) != len(values):
        raise FormatError(f"variable {v.name!r} has two values that are written the same.")
    return {"name": v.name, "values": values}


def _arc_record(a: Arc, attention: Attention, control: Control) -> dict[str, object]:
    belief = _belief(a)
    record: dict[str, object] = {
        "name": a.name,
        "sources": [v.name for v in a.sources],
        "targets": [v.name for v in a.targets],
    }
    if (alpha := attention.alpha.get(a.name, 0.0)) != 1:  # a file that writes it says how often the mechanism counts
        record["alpha"] = alpha
    record["beta"] = _written(attention.beta.get(a.name, 0.0))
    if a.name in control.chi:
        chi = control[a.name]
        if not isinstance(chi, float | int):
            raise FormatError(f"{a} has a control for each component of its parameters; a file holds one number.")
        record["control"] = _written(chi)
    return record | belief


def _belief(a: Arc) -> dict[str, object]:
    """The cpd under its own key."""
    if a.is_euclidean:
        try:
            A, b, Sigma = (x.detach() for x in a.linear_gaussian())  # noqa: N806
        except CapabilityError as error:
            raise FormatError(f"{error} A JSON file holds tables and linear Gaussians only.") from None
        parts = {"A": A, "b": b, "Sigma": Sigma} if a.sources else {"b": b, "Sigma": Sigma}
        held: object = {k: x.tolist() for k, x in parts.items()}
        numbers = torch.cat([x.reshape(-1) for x in parts.values()])
    else:
        numbers = a.cpd.phi if isinstance(a.cpd, Factor) else a.cpd.table().detach()
        held = numbers.tolist()
    if not torch.isfinite(numbers).all():
        raise FormatError(f"{a} holds a number that is not finite.")
    key = "linear_gaussian" if a.is_euclidean else "factor" if isinstance(a.cpd, Factor) else "table"
    return {key: held}


def _written(weight: float) -> float | str:
    return "inf" if weight == math.inf else float(weight)
