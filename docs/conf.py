"""Sphinx: how these pages become a site. `make docs` builds it, warnings are errors."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))  # docstrings.py, charts.py, mathml.py

from docstrings import as_restructured_text

project = "dissonance"
author = "The dissonance developers"
copyright = "the dissonance developers"
release = version = installed("dissonance")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "charts",
    "mathml",
]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "figures"]

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "description"  # a list of parameters with their types, and the type of the result
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autoclass_content = "both"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
templates_path = ["_templates"]
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "dissonance"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
html_copy_source = False
html_show_sourcelink = False
highlight_language = "text"  # indented blocks are formulas and what commands print
pygments_style = "friendly"
pygments_dark_style = "monokai"


HERE = Path(__file__).parent


def reach_out(_app: object, docname: str, source: list[str]) -> None:
    """Links to Markdown files of the repository that are no pages here: Sphinx would look for a page."""
    folder = (HERE / docname).parent

    def link(found: re.Match[str]) -> str:
        inside = (folder / found[1]).resolve().is_relative_to(HERE)
        return found[0] if inside else f"](<path:{found[1]}>)"

    source[0] = re.sub(r"\]\((\.\./[^)#:]+\.md)\)", link, source[0])


def setup(app: Sphinx) -> None:
    """Docstrings here are plain text with formulas, not reStructuredText."""
    app.connect("autodoc-process-docstring", lambda _a, _w, _n, _o, _p, lines: as_restructured_text(lines))
    app.connect("source-read", reach_out)
