"""Draw docs/architecture.svg, the picture of one run.

``python -m docs.tools`` writes it; a test draws it again and accepts no difference.
Standard library only. The colours follow the reader's light or dark mode.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

PICTURE: Final = Path(__file__).parents[1] / "architecture.svg"

STYLE: Final = """
    text { font: 14px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
    .name { font-weight: 600; font-size: 15px }
    .note, .label { font-size: 12.5px; fill: #57606a }
    .box { fill: #f6f8fa; stroke: #8c959f; stroke-width: 1.2 }
    .engine { fill: #ddf4ff; stroke: #0969da }
    .verdict { fill: #dafbe1; stroke: #1a7f37 }
    .arrow { fill: none; stroke: #57606a; stroke-width: 1.6; marker-end: url(#tip) }
    .fault { stroke: #cf222e; stroke-dasharray: 6 4; marker-end: url(#spark) }
    .tip { fill: #57606a } .spark { fill: #cf222e } .harm { fill: #cf222e }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3 } .note, .label { fill: #9198a1 }
      .box { fill: #161b22; stroke: #656c76 }
      .engine { fill: #0c2d6b; stroke: #4493f8 }
      .verdict { fill: #0f3d1f; stroke: #3fb950 }
      .arrow { stroke: #9198a1 } .tip { fill: #9198a1 }
      .fault { stroke: #f85149 } .spark, .harm { fill: #f85149 }
    }
"""


def text(x: int, y: int, words: str, kind: str, anchor: str = "middle") -> str:
    """Return one line of text."""
    return f'  <text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{words}</text>'


def box(x: int, y: int, width: int, name: str, *notes: str, kind: str = "") -> list[str]:
    """Return a box with a name and, below it, what it does."""
    height, middle = 36 + 18 * len(notes), x + width // 2
    kind = f"box {kind}".rstrip()
    return [
        f'  <rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" class="{kind}"/>',
        text(middle, y + 24, name, "name"),
        *(text(middle, y + 44 + 18 * row, note, "note") for row, note in enumerate(notes)),
    ]


def arrow(path: str, kind: str = "") -> str:
    """Return an arrow along a path."""
    return f'  <path d="{path}" class="{f"arrow {kind}".rstrip()}"/>'


def picture() -> str:
    """Return the whole picture."""
    lines = [
        *box(20, 20, 200, "scenario", "app, input, pace, faults", "drawn from a seed"),
        *box(20, 166, 200, "runner", "starts, deploys, drains", "injects every fault"),
        *box(340, 20, 230, "log server", "serves input at offsets", "records every byte of output"),
        *box(
            340,
            166,
            230,
            "your engine",
            "an adapter and its processes",
            "in any language",
            kind="engine",
        ),
        *box(690, 20, 190, "run folder", "input, output, times", "can be judged again"),
        *box(690, 166, 190, "checkers", "pure functions of the", "record, one per promise"),
        *box(
            690,
            312,
            190,
            "verdict",
            "pass · fail · unknown",
            "with its counterexample",
            kind="verdict",
        ),
        *box(340, 312, 230, "reports", "terminal, JSON, JUnit", "the story of each failure"),
        arrow("M120,92 V164"),
        arrow("M220,190 H338"),
        text(279, 183, "JSON lines", "label"),
        arrow("M220,222 H338", "fault"),
        text(279, 240, "SIGKILL, pause,", "label harm"),
        text(279, 256, "full disk", "label harm"),
        arrow("M200,166 C240,110 270,66 338,56", "fault"),
        text(279, 46, "cut, late, slow", "label harm"),
        arrow("M400,92 V164"),
        text(392, 133, "FETCH", "label", "end"),
        arrow("M510,166 V94"),
        text(518, 133, "APPEND, COMMIT", "label", "start"),
        arrow("M570,56 H688"),
        arrow("M785,92 V164"),
        arrow("M785,238 V310"),
        arrow("M690,348 H572"),
    ]
    tips = "\n".join(
        f'    <marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0 L10,5 L0,10 z" class="{name}"/></marker>'
        for name in ("tip", "spark")
    )
    title = (
        "The runner plays a scenario on your engine and injects faults; the log server feeds "
        "the engine and records its output; checkers judge the record."
    )
    body = "\n".join(lines)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 404" role="img">\n'
        f"  <title>{title}</title>\n  <style>{STYLE}  </style>\n"
        f"  <defs>\n{tips}\n  </defs>\n{body}\n</svg>\n"
    )
