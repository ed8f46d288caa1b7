"""The fenced blocks of the documents, and what each of them is.

| block | what tests do with it |
|---|---|
| console | lines that begin with ``$`` are commands; the others are what they print |
| python | compiled, and what it imports from tickproof has to be there |
| toml, json | parsed |
| yaml | the commands behind ``- run:``, and of a script, are commands |
| ini | tests/docs/test_ci.py runs it |
| text, mermaid | nothing: output, or a drawing |

A block below the line ``<!-- run -->`` is run: the commands of a console block in a fresh
folder, and the rest as the page says (a block whose first line is a comment with a file name
is that file). A command of any other console block is held against the parser of the command
line instead: runs that take minutes, need Spark, or need a file of the reader's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
KINDS: Final = ("console", "python", "toml", "json", "yaml", "ini", "text", "mermaid")
RUN: Final = "<!-- run -->"

_FENCE: Final = re.compile(r"^```(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED: Final = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    kind: str
    body: str
    is_run: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that the block is, if its first line says so."""
        named = _NAMED.match(self.body)
        return named[1] if named else None

    @property
    def commands(self) -> list[str]:
        """The commands of a console or yaml block, continued lines joined."""
        if self.kind == "yaml":
            return re.findall(r"(?:- |run: )((?:pip|tickproof|mkdir) .+)", self.body)
        joined = self.body.replace("\\\n", " ")
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def pages_with_commands() -> list[Path]:
    """Return the pages whose blocks are collected."""
    return sorted(
        [
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            ROOT / "reference" / "README.md",
            ROOT / "tests" / "README.md",
            *(ROOT / "docs").rglob("*.md"),
        ]
    )


def all_pages() -> list[Path]:
    """Return every page of the project that is written for readers."""
    others = [
        ROOT / "CHANGELOG.md",
        ROOT / "generators" / "README.md",
        # No deeper: what jobs bring and build lies in their folders, with pages of its own.
        *(ROOT / "fixtures").glob("*/README.md"),
        *(ROOT / "fixtures").glob("*/*/README.md"),
    ]
    return sorted([*pages_with_commands(), *others])


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = page.read_text("utf-8")
    return [
        Block(
            page.relative_to(ROOT).as_posix(),
            text.count("\n", 0, match.start()) + 1,
            match[1],
            match[2],
            text[: match.start()].rstrip("\n").endswith(RUN),
        )
        for match in _FENCE.finditer(text)
    ]


def all_blocks() -> list[Block]:
    """Return the fenced blocks of all pages whose commands are looked at."""
    return [block for page in pages_with_commands() for block in blocks(page)]


def prose(text: str) -> str:
    """Return a page without its fenced blocks."""
    return _FENCE.sub("", text)
