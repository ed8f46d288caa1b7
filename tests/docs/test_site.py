"""The site is built without a warning; the picture is up to date."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from docs.tools import diagram
from tests.docs.blocks import ROOT


def test_the_picture_is_up_to_date():
    assert diagram.PICTURE.read_text("utf-8") == diagram.picture(), "run python -m docs.tools"


def test_the_picture_can_be_read_in_the_dark():
    root = ElementTree.fromstring(diagram.picture())
    classes = {one for node in root.iter() for one in node.get("class", "").split()}
    light, dark = diagram.STYLE.split("@media (prefers-color-scheme: dark)")
    assert classes - set(re.findall(r"\.([a-z]+)", light)) == set()
    assert {"box", "engine", "verdict", "arrow", "fault", "note"} <= set(
        re.findall(r"\.([a-z]+)", dark)
    )


def test_the_site_is_built(tmp_path):
    pytest.importorskip("material", reason="the site is built with mkdocs-material")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    protocol = (tmp_path / "protocol" / "index.html").read_text("utf-8")
    assert '<a id="log-fetch-wait"></a>' in protocol
    verdicts = (tmp_path / "verdicts" / "index.html").read_text("utf-8")
    assert "<td>NOTHING_IN_FLIGHT</td>" in verdicts
    commands = (tmp_path / "commands" / "index.html").read_text("utf-8")
    for name in ("run", "check", "selftest", "host"):
        assert re.search(rf'<h\d id="[\w-]*{name}">', commands), name
    for page in pages:
        loaded = re.findall(
            r'<(?:link|script|img)[^>]* (?:href|src)="(https?:[^"]+)"', page.read_text("utf-8")
        )
        assert [one for one in loaded if "canonical" not in one] == [], page
