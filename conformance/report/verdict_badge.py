"""badge.svg: the verdict of a session as a small picture, for a README or a wiki."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from markupsafe import Markup

from tickproof.conformance.report import whole_file
from tickproof.conformance.report.json_report import Report
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import JUDGED, Verdict

FILE_NAME: Final = "badge.svg"
_COLOURS: Final = {Verdict.PASS: "#14692f", Verdict.FAIL: "#b3151c", Verdict.GAP_FIXED: "#b3151c",
                   Verdict.KIT_ERROR: "#86198f"}  # fmt: skip
_OTHER: Final = "#7a5200"
#: Width of a character and of the room beside a text, in pixels.
_WIDE: Final = 6.6
_ROOM: Final = 14
_PICTURE: Final = Markup(
    '<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" '
    'aria-label="{name}: {said}"><title>{name}: {said}</title>'
    '<rect width="{left}" height="20" fill="#1d2329"/>'
    '<rect x="{left}" width="{right}" height="20" fill="{colour}"/>'
    '<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" '
    'font-size="11"><text x="{at_name}" y="14" textLength="{of_name}">{name}</text>'
    '<text x="{at_said}" y="14" textLength="{of_said}">{said}</text></g></svg>\n'
)


def svg(report: Report) -> str:
    """Return the picture: the kit's name, the verdict, how many requirements were judged."""
    judged = sum(one.verdict in JUDGED for one in report.requirements)
    name, said = "tickproof", shown(f"{report.conclusion.word}, {judged} judged", 60)
    of_name, of_said = (round(len(text) * _WIDE) for text in (name, said))
    left, right = of_name + _ROOM, of_said + _ROOM
    return str(
        _PICTURE.format(
            width=left + right,
            left=left,
            right=right,
            name=name,
            said=said,
            of_name=of_name,
            of_said=of_said,
            at_name=left / 2,
            at_said=left + right / 2,
            colour=_COLOURS.get(report.conclusion.look, _OTHER),
        )
    )


def write(report: Report, folder: Path) -> Path:
    """Write badge.svg beside the report.json of a session; returns its path. Raises OSError."""
    return whole_file.write(folder / FILE_NAME, svg(report))
