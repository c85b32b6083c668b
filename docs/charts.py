"""Charts of the site follow the page: those made by matplotlib get the colours of dark pages when it is built."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

INK = "#e4e7eb"
DARK = {
    "#000000": INK,
    "#1f77b4": "#6cb2e8",
    "#ff7f0e": "#ff9f4a",
    "#2ca02c": "#5fcf5f",
    "#d62728": "#ff7b7b",
    "#9467bd": "#b995e0",
    "#8c564b": "#c99a8f",
    "#b22222": "#ff7b7b",
    "#0072b2": "#56a9dd",
    "#d55e00": "#f28a45",
    "#009e73": "#4fcfa5",
    "#666666": "#a2a9b4",
    "#808080": "#a2a9b4",
    "#d3d3d3": "#4a525e",
}
"""By colour on white: the colour on a dark page. Others are readable on both."""
MARK = "/* dark pages */"


def themed(svg: str) -> str:
    """The text of a chart that is transparent on dark pages and has light lines and letters there."""
    if MARK in svg or "matplotlib" not in svg:
        return svg
    rules = [f"svg{{fill:{INK}}}", '[style*="fill: #ffffff"]{fill:transparent!important}']
    for kind in ("fill", "stroke"):
        rules += [f'[style*="{kind}: {old}"]{{{kind}:{new}!important}}' for old, new in DARK.items()]
    rules.append('[style*="stroke: #ffffff"]{stroke:#15181e!important}')
    style = f"<style>{MARK}@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>"
    start = svg.index(">", svg.index("<svg")) + 1
    return svg[:start] + style + svg[start:]


def finish(app: Sphinx, failed: Exception | None) -> None:
    """Change the charts of the built site."""
    if failed is None and app.builder.format == "html":
        for path in Path(app.outdir, "_images").glob("*.svg"):
            text = path.read_text(encoding="utf-8")
            if (changed := themed(text)) != text:
                path.write_text(changed, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Let it happen once everything is written."""
    app.connect("build-finished", finish)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
