"""Links lead somewhere, and code that the documents name exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, all_pages
from tests.docs.links import anchors, dead_links

PAGES = all_pages()
#: What a path in the text may be relative to.
TOPS = ("", "conformance", "fixtures/engines", "fixtures/engines/miniature", "tests", "docs")


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    assert dead_links(page) == []


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "other.md").write_text("# One\n## Two words, a `thing`\n## One\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#two-words-a-thing) [c](other.md#one-1) [d](#here)\n"
        "## Here\n[e](https://example.org/none) `[code](none.md)`\n"
        "```text\n[f](none.md)\n```\n"
    )
    assert dead_links(page) == []
    page.write_text("[a](gone.md) ![b](gone.svg) [c](other.md#three) [d](#there)\n## Here\n")
    assert dead_links(page) == ["gone.md", "gone.svg", "other.md#three", "#there"]


def test_headings_in_blocks_are_no_anchors(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Real\n```text\n# Not real\n```\n")
    assert anchors(page) == {"real"}


def paths(text: str) -> set[str]:
    """Return the Python files, and the files and folders of the repository, that a text names."""
    tops = "conformance|docs|fixtures|generators|reference|tests"
    modules = re.findall(r"(?<![\w./<-])((?:\w+/)+\w+\.py)\b", text)
    named = {*modules, *re.findall(rf"`((?:{tops})/[\w./-]+)`", text)}
    return {one for one in named if not re.search(r"/[A-Z]+\.(toml|py)$", one)}  # ID.toml, NAME.py


def dotted(text: str) -> set[str]:
    tops = "conformance|fixtures|generators|reference"
    return set(re.findall(rf"\btickproof\.(?:{tops})(?:\.\w+)*\b", text))


def exists(module: str) -> bool:
    """Is a dotted name a module, or an attribute of one?"""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("tickproof"):
                pytest.skip(f"{module} needs {error.name}")
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_in_the_text_exist(page):
    tops = [ROOT / top for top in TOPS] + [page.parent]
    named = paths(page.read_text("utf-8"))
    assert [one for one in sorted(named) if not any((top / one).exists() for top in tops)] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_names_of_modules_in_the_text_exist(page):
    assert [one for one in sorted(dotted(page.read_text("utf-8"))) if not exists(one)] == []


def test_a_dead_path_is_found():
    text = "see protocol/loop.py, `conformance/packing`, tickproof.conformance.packing.making"
    assert paths(text) == {"protocol/loop.py", "conformance/packing"}
    assert not (ROOT / "conformance" / "packing").exists()
    assert dotted(text) == {"tickproof.conformance.packing.making"}
    assert not exists("tickproof.conformance.packing.making")
    assert not exists("tickproof.conformance.history.folder.Nothing")
    assert exists("tickproof.conformance.history.folder.History")
