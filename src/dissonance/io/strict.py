"""Strict decoding of JSON: whatever is wrong becomes one line that says what was found, where, and what was needed."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np

from dissonance.arc import Arc
from dissonance.cpds import Factor, SoftmaxTable, Table
from dissonance.errors import CapabilityError, DissonanceError, FormatError, suggest
from dissonance.io.lines import line_of
from dissonance.variables import Variable

T = TypeVar("T")

MAX_AXES = 32
"""How many variables an arc in a file may have: as many axes as an array may have."""

_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "float | str": 'a number or "inf"',
    "int": "a whole number",
    "object": "an object",
    "str": "a string",
}


class Keys(msgspec.Struct):
    """The keys that tell one JSON format from another."""

    format: Any = None
    graph: msgspec.Raw = msgspec.Raw()
    cpds: msgspec.Raw = msgspec.Raw()


class _Named(msgspec.Struct):
    name: Any = None


class _Names(msgspec.Struct):
    variables: list[_Named] = []
    arcs: list[_Named] = []


# -- JSON --------------------------------------------------------------------------------------------------------------


def text(content: bytes) -> bytes:
    """The content, if it is text at all, without a byte order mark."""
    content = content.removeprefix(codecs.BOM_UTF8)
    if not content.strip():
        raise FormatError("is empty.")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise FormatError(f"is not UTF-8 text (byte {error.start}): save it as UTF-8.") from None
    return content


def decode(content: bytes | msgspec.Raw, kind: type[T] | Any) -> T:
    """The content as a record of that kind, or a FormatError."""
    try:
        return _decoder(kind).decode(content)
    except RecursionError:
        raise FormatError("is nested too deeply to be a PDG.") from None
    except msgspec.ValidationError as error:
        raise _mismatch(str(error), bytes(content), kind) from None
    except msgspec.DecodeError as error:
        raise _syntax(str(error), bytes(content)) from None


def check_keys(content: bytes, different: int) -> None:
    """No object of a document has a key twice, if there are so many different ones; decoding keeps the last of two."""
    if len(re.findall(rb'(?<!\\)"\s*+:', content)) != different:
        json.loads(content, object_pairs_hook=_unique, parse_int=float)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise FormatError(f"the key {key!r} is given twice in one object: leave one of them out.")
        found[key] = value
    return found


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _syntax(message: str, content: bytes) -> FormatError:
    at = re.fullmatch(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)", message)
    if at is None:
        line = content.rstrip().count(b"\n") + 1
        return FormatError("the JSON ends too soon: it is cut short, or a bracket or quote is not closed.", line)
    byte = int(at[2])
    line, column = content.count(b"\n", 0, byte) + 1, byte - content.rfind(b"\n", 0, byte)
    word = re.match(rb"-?(?:nan|inf(?:inity)?)\b", content[byte - content[:byte].endswith(b"-") :], re.IGNORECASE)
    if word:
        found = word[0].decode()
        return FormatError(f'{found} is not a JSON number; numbers are finite (beta and control may be "inf").', line)
    return FormatError(f"is not valid JSON, column {column}: {at[1]}.", line)


def _mismatch(message: str, content: bytes, kind: type) -> FormatError:
    what, _, path = message.partition(" - at `")
    path = path.removesuffix("`").removeprefix("$")
    if field := re.fullmatch(r"Object contains unknown field `(.*)`", what, re.DOTALL):
        what = f"unknown key {field[1]!r}.{suggest(field[1], _record(kind, path).__struct_fields__)}"
    elif field := re.fullmatch(r"Object missing required field `(.*)`", what):
        what = f"the key {field[1]!r} is missing."
    elif types := re.fullmatch(r"Expected `(.*)`, got `(.*)`", what):
        what = f"expected {_WORDS.get(types[1], types[1])}, found {_WORDS.get(types[2], types[2])}."
    elif what == "Number out of range":
        what = "a number is too large."
    place = _place(path, content)
    steps = [key or int(position) for key, position in re.findall(r"\.(\w+)|\[(\d+)\]", path)]
    return FormatError(f"{place}: {what}" if place else what, line_of(content, *steps))


def _record(kind: type, path: str) -> type[msgspec.Struct]:
    """The kind of record that a path leads to."""
    for step in re.findall(r"\.(\w+)", path):
        hint = get_type_hints(kind)[step]
        kind = next((t for t in (hint, *get_args(hint)) if isinstance(t, type) and issubclass(t, msgspec.Struct)), kind)
    return kind


def _place(path: str, content: bytes) -> str:
    """A path in the words of the file: ".arcs[2].beta" is "arc 'study': beta"."""
    step = re.fullmatch(r"\.(variable|arc)s\[(\d+)\](.*)", path)
    if step is None:
        return path.removeprefix(".")
    try:
        records = getattr(msgspec.json.decode(content, type=_Names), f"{step[1]}s")
        name = records[int(step[2])].name
    except (msgspec.DecodeError, RecursionError):
        name = None
    who = f"{step[1]} {name!r}" if isinstance(name, str) else f"{step[1]}s[{step[2]}]"
    return f"{who}: {step[3].removeprefix('.')}" if step[3] else who


# -- parts of a PDG ----------------------------------------------------------------------------------------------------


def variables_by_name(content: bytes, path: Sequence[str], variables: Iterable[Variable]) -> dict[str, Variable]:
    """The variables of a list in the document by name, if no two share one."""
    known: dict[str, Variable] = {}
    for i, v in enumerate(variables):
        if known.setdefault(v.name, v) is not v:
            raise FormatError(f"two variables are named {v.name!r}.", line_of(content, *path, i))
    return known


def arc(
    name: str,
    sources: Sequence[str],
    targets: Sequence[str],
    table: msgspec.Raw,
    known: dict[str, Variable],
    learnable: bool,
    factor: bool = False,
) -> Arc:
    """An arc between known variables with a table that fits them; that of a factor need not sum to 1."""
    tail, head = ends(name, sources, targets, known)
    scope = (*tail, *head)
    if len(scope) > MAX_AXES:
        raise FormatError(f"arc {name!r} has {len(scope)} variables; at most {MAX_AXES} are supported.")
    try:
        p = np.array(_table_decoder(len(scope)).decode(table))
    except (ValueError, RecursionError):  # not numbers, or ragged
        raise _misfits(name, table, scope) from None
    try:
        if factor:
            phi = Factor(p)
            return Arc(name, tail, head, SoftmaxTable(phi.table().numpy()) if learnable else phi)
        return Arc(name, tail, head, SoftmaxTable(p) if learnable else Table(p))
    except CapabilityError:  # the wrong shape
        raise _misfits(name, table, scope) from None
    except DissonanceError as error:
        raise FormatError(str(error) if str(error).startswith("arc ") else f"arc {name!r}: {error}") from None


def ends(
    name: str, sources: Sequence[str], targets: Sequence[str], known: dict[str, Variable]
) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    """The sources and the targets of an arc, if they are known variables that an arc can have."""
    if not targets:
        raise FormatError(f"arc {name!r} has no targets; it needs at least one.")
    if both := set(sources) & set(targets):
        raise FormatError(
            f"arc {name!r} has {min(both)!r} both as a source and as a target; it may be only one of them."
        )
    try:
        tail, head = tuple([known[n] for n in sources]), tuple([known[n] for n in targets])
    except KeyError as missing:
        unknown = missing.args[0]
        raise FormatError(f"arc {name!r}: no variable named {unknown!r}.{suggest(unknown, known)}") from None
    return tail, head


def _misfits(name: str, table: msgspec.Raw, scope: tuple[Variable, ...]) -> FormatError:
    try:
        problem = _misfit(decode(table, Any), scope, "table")
    except FormatError as error:
        return FormatError(f"arc {name!r}: table {error}")
    wanted = " x ".join(f"{v.name} ({v.size})" for v in scope)
    return FormatError(f"arc {name!r}: {problem} The table must be {wanted}: the sources in order, then the targets.")


@cache
def _table_decoder(axes: int) -> msgspec.json.Decoder[Any]:
    kind: Any = float
    for _ in range(axes):
        kind = list[kind]
    return msgspec.json.Decoder(kind)


def _misfit(part: object, scope: Sequence[Variable], place: str) -> str | None:
    """The first place where nested lists are not a table over the scope."""
    if not scope:
        number = isinstance(part, int | float) and not isinstance(part, bool)
        return None if number else f"{place} is {_found(part)}, not a number."
    if not isinstance(part, list):
        return f"{place} is {_found(part)}, not a list over the {scope[0].size} values of {scope[0].name}."
    if len(part) != scope[0].size:
        return f"{place} has {len(part)} entries, but {scope[0].name} has {scope[0].size} values."
    misfits = (_misfit(p, scope[1:], f"{place}[{i}]") for i, p in enumerate(part))
    return next((m for m in misfits if m), None)


def _found(part: object) -> str:
    return f"a list of {len(part)}" if isinstance(part, list) else "an object" if isinstance(part, dict) else repr(part)
