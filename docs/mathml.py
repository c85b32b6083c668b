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
SPACED = ("log", "exp", "det")


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
    """Limits below their sign, names of functions upright and apart from what follows, angle brackets as brackets."""
    children = list(part)
    if part.tag in LIMITS and display and children[0].text in ("inf", "min", "max"):
        part.tag = LIMITS[part.tag]
    elif part.tag == "mo" and re.fullmatch("[A-Za-z]+", part.text or "") and part.text not in ("inf", "min", "max"):
        part.tag = "mi"
        part.attrib = {"mathvariant": "normal"}
    elif part.text in ("⟪", "⟫"):
        part.tag = "mo"
        part.attrib.update(stretchy="false", lspace="0", rspace="0")
    elif part.tag == "mrow":
        for i in range(len(children) - 1, 0, -1):
            before, here = children[i - 1], children[i]
            if here.text == "\N{MINUS SIGN}" and before.tag == "mo" and before.text not in (")", "]", "⟫"):
                here.set("form", "prefix")  # a sign, and no operation
            after_name = before.text in SPACED and here.text not in ("(", ")")
            before_name = here.text in SPACED and before.tag not in ("mo", "mspace")
            if after_name or before_name:
                part.insert(i, Element("mspace", width="0.17em"))


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
