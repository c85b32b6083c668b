"""XMLBIF, the interchange format of Bayesian networks in XML (version 0.3)."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

import numpy as np

from dissonance.errors import FormatError, suggest
from dissonance.focus import Focus
from dissonance.io.limits import MAX_ELEMENTS, check_count
from dissonance.io.network import Definition, check_scope, counted, known, network_pdg, parts, value_names
from dissonance.io.scan import numbers
from dissonance.pdg import PDG
from dissonance.variables import Variable, cells

NUMBERS = re.compile(r"[-+0-9.eE\s]*+")
UNWRITABLE = re.compile(r"^\s|\s$|^$|[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
MAX_DEPTH = 16
INSIDE = {
    "": {"BIF"},
    "BIF": {"NETWORK"},
    "NETWORK": {"NAME", "PROPERTY", "VARIABLE", "DEFINITION"},
    "VARIABLE": {"NAME", "OUTCOME", "VALUE", "PROPERTY"},
    "DEFINITION": {"FOR", "GIVEN", "TABLE", "PROPERTY"},
}
"""Which elements each may hold; the others hold text."""
ARC = "dissonance.arc = "
"""A property by which an arc keeps a name that is not its target's."""
TEXT = "dissonance.values = text"
"""A property of values that look like the numbers 0, 1, 2, ... and are text."""


@dataclass
class Element:
    """An element, the line it starts on, and what is in it."""

    tag: str
    line: int
    kind: str = "nature"
    inside: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its text, without the space around it."""
        return "".join(self.pieces).strip()

    def all(self, *tags: str) -> list[Element]:
        """The elements in it that are so called."""
        return [e for e in self.inside if e.tag in tags]

    def only(self, tag: str) -> Element:
        """The one element in it that is so called."""
        found = self.all(tag)
        if len(found) != 1:
            raise FormatError(f"{self.tag} needs one {tag}, found {len(found)}.", self.line)
        return found[0]


# -- reading -----------------------------------------------------------------------------------------------------------


def from_bytes(content: bytes, learnable: bool) -> tuple[PDG, Focus]:
    """The PDG of a Bayesian network: an arc for every definition, named after its child."""
    whole = _parse(content).only("BIF").only("NETWORK")
    variables: dict[str, Variable] = {}
    for e in whole.all("VARIABLE"):
        v = _variable(e)
        if v.name in variables:
            raise FormatError(f"two variables are named {v.name!r}.", e.line)
        variables[v.name] = v
    if not variables:
        raise FormatError("the NETWORK has no VARIABLE.", whole.line)
    return network_pdg(variables, [_definition(e, variables) for e in whole.all("DEFINITION")], learnable)


def _parse(content: bytes) -> Element:
    """The elements of a document, with an element without a name around them."""
    if not content.strip():
        raise FormatError("is empty.")
    parser = expat.ParserCreate()
    parser.buffer_text = True
    open_elements = [Element("", 1)]
    count = itertools.count(1)

    def start(tag: str, attributes: dict[str, str]) -> None:
        around, line = open_elements[-1], parser.CurrentLineNumber
        allowed = INSIDE.get(around.tag, set())
        name = tag.upper()
        if name not in allowed or len(open_elements) > MAX_DEPTH:
            place = f"in {around.tag}" if around.tag else "as the outermost element: it is not XMLBIF"
            raise FormatError(f"did not understand <{tag}> {place}.{suggest(name, sorted(allowed))}", line)
        check_count(next(count), "elements", line, MAX_ELEMENTS)
        made = Element(name, line, next((v for k, v in attributes.items() if k.upper() == "TYPE"), "nature"))
        around.inside.append(made)
        open_elements.append(made)

    def refuse_entity(name: str, *_: object) -> None:
        raise FormatError(f"declares the entity {name!r}; XMLBIF needs none.", parser.CurrentLineNumber)

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_elements.pop()
    parser.CharacterDataHandler = lambda data: open_elements[-1].pieces.append(data)
    parser.EntityDeclHandler = refuse_entity
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise FormatError(f"is not well-formed XML: {expat.ErrorString(error.code)}.", error.lineno) from None
    except FormatError:
        raise
    except (ValueError, LookupError) as error:  # an unknown encoding
        raise FormatError(f"is not XML that can be read: {error}.") from None
    _check_text(open_elements[0])
    return open_elements[0]


def _check_text(element: Element) -> None:
    for e in element.inside:
        if e.tag in INSIDE and e.text:
            raise FormatError(f"did not understand {e.text[:30]!r} in {e.tag}.", e.line)
        _check_text(e)


def _variable(e: Element) -> Variable:
    name = e.only("NAME").text
    if not name:
        raise FormatError("a VARIABLE has an empty NAME.", e.line)
    if e.kind.lower() != "nature":
        raise FormatError(f"variable {name!r} is of type {e.kind!r}; only nature is supported.", e.line)
    written = [o.text for o in e.all("OUTCOME", "VALUE")]
    if not written:
        raise FormatError(f"variable {name!r} has no OUTCOME; it needs at least one.", e.line)
    if len(set(written)) < len(written):
        twice = next(x for i, x in enumerate(written) if x in written[:i])
        raise FormatError(f"variable {name!r} has the value {twice!r} twice.", e.line)
    is_text = any(p.text == TEXT for p in e.all("PROPERTY"))
    return Variable(name, len(written) if counted(written) and not is_text else written)


def _definition(e: Element, variables: dict[str, Variable]) -> Definition:
    child = known(e.only("FOR").text, variables, e.line)
    parents = tuple([known(g.text, variables, g.line) for g in e.all("GIVEN")])
    check_scope(child, parents, e.line)
    written = e.only("TABLE")
    text = "".join(written.pieces)
    given = numbers(text) if NUMBERS.fullmatch(text) else None
    if given is None:
        raise FormatError(f"the TABLE of {child.name!r} holds what is not a number.", written.line)
    wanted = cells(parents) * child.size
    if len(given) != wanted:
        raise FormatError(f"the TABLE of {child.name!r} has {len(given)} numbers; {wanted} are needed.", written.line)
    table = np.array(given).reshape(-1, child.size)
    name = next((p.text.removeprefix(ARC) for p in e.all("PROPERTY") if p.text.startswith(ARC)), None)
    return Definition(child, parents, table, e.line, lambda _: written.line, name)


# -- writing -----------------------------------------------------------------------------------------------------------


def to_bytes(pdg: PDG, focus: Focus) -> bytes:
    """The content of a file that describes the PDG, if it is a Bayesian network."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>", "<NAME>unknown</NAME>"]
    found = parts(pdg, focus, "XMLBIF")
    for v in pdg.variables:
        written, numbered = value_names(v)
        lines += ['<VARIABLE TYPE="nature">', f"  <NAME>{_text(v.name)}</NAME>"]
        lines += [f"  <OUTCOME>{_text(x)}</OUTCOME>" for x in written]
        lines += [f"  <PROPERTY>{TEXT}</PROPERTY>"] * (counted(written) and not numbered)
        lines.append("</VARIABLE>")
    for a, table in found:
        lines += ["<DEFINITION>", f"  <FOR>{_text(a.targets[0].name)}</FOR>"]
        lines += [f"  <GIVEN>{_text(v.name)}</GIVEN>" for v in a.sources]
        lines += ["  <TABLE>", *(f"    {' '.join(map(repr, row))}" for row in table.tolist()), "  </TABLE>"]
        if a.name != a.targets[0].name:
            lines.append(f"  <PROPERTY>{ARC}{_text(a.name)}</PROPERTY>")
        lines.append("</DEFINITION>")
    return "\n".join([*lines, "</NETWORK>", "</BIF>", ""]).encode()


def _text(text: str) -> str:
    if UNWRITABLE.search(text):
        what = "is empty, or has a control character or space around it"
        raise FormatError(f"XMLBIF cannot hold the name {text!r}: it {what}. Use .json.")
    return escape(text)
