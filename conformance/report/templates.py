"""Templates of pages: they escape all that is not markup of the kit's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup
from rich import filesize
from rich.console import Console
from rich.text import Text

from tickproof.conformance.report.document import PAGE_NAME
from tickproof.conformance.report.style import mark
from tickproof.conformance.text import counted, shown

if TYPE_CHECKING:
    import jinja2

#: Longest line of text that a page shows.
LINE_LIMIT: Final = 4000
_HERE: Final = Path(__file__).parent
#: What pages look like; a report has it inside.
STYLE: Final = _HERE / "report.css"


def render(name: str, **values: Any) -> str:
    """Return the page that a template of this folder makes of values."""
    style = Markup(STYLE.read_text("utf-8"))
    return _environment().get_template(name).render(style=style, **values)


@cache
def _environment() -> jinja2.Environment:
    # It keeps what it has compiled, which takes longer than to fill it in.
    import jinja2  # only pages need it

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(_HERE),
    )
    environment.filters |= _FILTERS
    return environment


def as_extra(write: Callable[[], object], console: Console) -> bool:
    """Write a page. What goes wrong in it costs no verdict, and is said; raises OSError.

    Returns whether it was written.
    """
    try:
        write()
    except OSError:
        raise
    except Exception as error:
        why = f"no {PAGE_NAME}: {type(error).__name__}: {error}"
        console.print(Text(why, style="magenta"), soft_wrap=True)
        return False
    return True


def visible(value: object) -> object:
    """Return text with every control character and override shown as an escape, lines kept."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(shown(line, LINE_LIMIT) for line in value.split("\n"))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


_FILTERS: Final[Mapping[str, Any]] = {
    "mark": mark, "counted": counted, "duration": _duration,
    "bytes": lambda size: filesize.decimal(round(size)),
    "mib": lambda size: f"{size / 2**20:.0f} MiB",
    "gib": lambda size: f"{size / 2**30:.0f} GiB",
}  # fmt: skip
