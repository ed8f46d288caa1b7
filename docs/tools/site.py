"""A hook of mkdocs: made pages and tables, all decisions, and links that lead out of docs/.

READMEs outside docs/ become pages of the site, below ``tree/``. A link to any other file
of the repository becomes its path, as text: the site is built without knowing where the
repository is published.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files

from docs.tools import pages

ROOT: Final = Path(__file__).parents[2]
READMES: Final = sorted(
    [
        # Not those of packages that a `prepare` brought.
        *(p for p in ROOT.glob("fixtures/**/README.md") if "node_modules" not in p.parts),
        *(ROOT / name / "README.md" for name in ("generators", "reference", "tests")),
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
    ]
)
_LINK: Final = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Put every decision into the navigation."""
    [explanation] = [part["Explanation"] for part in config.nav if "Explanation" in part]
    paths = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    explanation.append({"Decisions": [f"decisions/{path.name}" for path in paths]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made, and the READMEs of other folders."""
    for name, text in (pages.pages() | pages.survey()).items():
        files.append(File.generated(config, name, content=text))
    for path in READMES:
        source = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, f"tree/{source}", content=path.read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Lead every link of a page to a page of the site, or say the path that it named."""
    source = page.file.src_uri
    here = source.removeprefix("tree/") if source.startswith("tree/") else f"docs/{source}"

    def led(match: re.Match[str]) -> str:
        image, words, target, anchor = match[1], match[2], match[3], match[4] or ""
        if ":" in target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        inside = path.removeprefix("docs/") if path.startswith("docs/") else f"tree/{path}"
        if files.get_file_from_path(inside):
            return (
                f"{image}[{words}]({posixpath.relpath(inside, posixpath.dirname(source))}{anchor})"
            )
        return f"{words} (`{path}`)" if words.strip("`") not in path else f"`{path}`"

    parts = _FENCE.split(pages.completed(markdown))
    return "".join(part if part.startswith("```") else _LINK.sub(led, part) for part in parts)
