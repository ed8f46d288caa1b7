"""A picture of a page as a file of its own: for a document, an issue, a slide."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from markupsafe import Markup

from tickproof.conformance.report.svg import LEFT, WIDTH, label

_STYLE: Final = Path(__file__).with_name("report.css")
_LINES: Final = ("published", "fetched", "outputs", "backlog")
_LEGEND: Final = {"outputs": "output"}
_STEP: Final = 90
_ROOM: Final = 24


def svg(picture: Markup, height: int) -> str:
    """Return a timeline as an SVG file, with what its lines mean below it."""
    style = _STYLE.read_text("utf-8")
    variables = style.partition("* {")[0]
    rules = [line for line in style.splitlines() if line.startswith(".timeline")]
    legend = [
        label(LEFT + number * _STEP, height + 14, _LEGEND.get(name, name), "start", f"key {name}")
        for number, name in enumerate(_LINES)
    ]
    colours = [
        f".key.{name} {{ stroke: none; fill: var(--{name}); font-weight: 600; }}" for name in _LINES
    ]
    inner = picture.partition(">")[2].rpartition("</svg>")[0]
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" class="timeline" '
        f'viewBox="0 0 {WIDTH} {height + _ROOM}">'
    )
    paper = f'<rect width="{WIDTH}" height="{height + _ROOM}" fill="var(--page)"/>'
    sheet = "\n".join([variables, *rules, *(f".timeline {one}" for one in colours)])
    return f"{head}\n<style>\n{sheet}\n</style>\n{paper}{inner}{''.join(legend)}\n</svg>\n"
