"""Formulas of the site as MathML, made when it is built: browsers show them without a script or a font of ours."""

from __future__ import annotations

import re
from html import unescape
from xml.etree.ElementTree import Element, tostring

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

LIMITS = {"msub": "munder", "msup": "mover", "msubsup": "munderover"}
"""Beside a sign, and above or below it."""
BELOW = ("inf", "min", "max", "∑", "∏")
"""Signs that have their limits below them."""
APPLIED = ("log", "exp", "det")
"""Functions that are written without brackets."""


def mathml(tex: str, display: bool) -> str:
    """The formula as a <math> element; an error if the converter copied a part of it as it was."""
    formula = convert_to_element(tex, display="block" if display else "inline")
    for part in list(formula.iter()):
        part.text = unescape(part.text or "")
        if "\\" in part.text or part.text == "&":
            raise ValueError(f"no MathML for {part.text} in the formula {tex}")
    for part in list(formula.iter()):
        _tidy(part, display)
    return tostring(formula, encoding="unicode")


def _tidy(part: Element, display: bool) -> None:
    """Limits below their sign, names of functions upright and set apart, angle brackets as brackets."""
    children = list(part)
    if part.tag in LIMITS and display and children[0].text in BELOW:
        part.tag = LIMITS[part.tag]
    elif part.tag == "mo" and _is_name(part):
        part.tag = "mi"
        part.attrib = {"mathvariant": "normal"}
    elif part.text in ("⟪", "⟫"):
        part.tag = "mo"
        part.attrib.update(stretchy="false", lspace="0", rspace="0")
    elif part.tag == "mrow":
        for i in range(len(children) - 1, 0, -1):
            before, here = children[i - 1], children[i]
            closed = before.tag not in ("mo", "mspace") or before.text in (")", "]", "⟫")
            if here.text == "\N{MINUS SIGN}" and not closed:
                here.set("form", "prefix")  # a sign, and no operation
            applied = before.text in APPLIED and here.text not in ("(", ")")
            if applied or (closed and _is_name(here)):
                part.insert(i, Element("mspace", width="0.17em"))


def _is_name(part: Element) -> bool:
    """Whether this is the name of a function, with or without an index."""
    while part.tag in ("msub", "msup", "munder"):
        part = part[0]
    word = re.fullmatch("[A-Za-z]+", part.text or "") is not None
    return word and part.text not in BELOW and (part.tag == "mo" or (part.tag == "mi" and len(part.text or "") > 1))


def inline(self: HTML5Translator, node: nodes.math) -> None:
    """A formula within a sentence."""
    self.body.append(mathml(node.astext(), display=False))
    raise nodes.SkipNode


def block(self: HTML5Translator, node: nodes.math_block) -> None:
    """A formula on lines of its own: one for each line of TeX that ends in two backslashes."""
    lines = [line.strip() for line in node.astext().split("\\\\")]
    shown = "".join(f"<div>{mathml(line, display=True)}</div>" for line in lines)
    self.body.append(f'<div class="formula">{shown}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make it the way in which Sphinx writes formulas."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
