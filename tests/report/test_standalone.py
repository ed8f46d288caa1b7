"""The picture of a run as a file of its own."""

from __future__ import annotations

import re
import shutil
from xml.etree import ElementTree

import pytest

from tickproof.conformance.cli import main
from tickproof.conformance.report import page
from tickproof.conformance.session import recorded_report


def test_it_is_whole_and_knows_its_colours(failed_run, tmp_path, page_of):
    drawn = page.picture(recorded_report.of_run(failed_run), failed_run)
    root = ElementTree.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join(root.itertext())
    assert "kill of engine" in text and "backlog" in text
    named = set(re.findall(r"var\(--(\w+)\)", drawn))
    assert named and all(f"--{name}:" in drawn for name in named)
    path = tmp_path / "run.svg"
    path.write_text(drawn, "utf-8")
    with page_of(path) as opened:
        assert opened.locator("svg").bounding_box()["width"] > 100


def test_report_writes_it_and_says_where_there_is_none(failed_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main.main(["report", str(failed_run), "-o", "run.svg"])
    assert stopped.value.code == 0
    assert (tmp_path / "run.svg").read_text("utf-8").startswith("<svg ")
    broken = shutil.copytree(failed_run, tmp_path / "broken")
    (broken / "output" / "s0.arrivals").write_bytes(b"x")
    with pytest.raises(SystemExit) as stopped:
        main.main(["report", str(broken), "-o", "other.svg"])
    assert stopped.value.code == 2
    assert not (tmp_path / "other.svg").exists()
