"""The short way of docs/kafka.md, followed from nothing to a verdict."""

from __future__ import annotations

import importlib.util

import pytest

from tests.docs.blocks import ROOT, Block, blocks
from tests.docs.playing import play
from tests.long import LONG

PAGE = ROOT / "docs" / "kafka.md"
APP = ROOT / "fixtures" / "starters" / "kafka-python" / "app.py"


def guide() -> list[Block]:
    """Return the blocks of the guide, which comes first on its page."""
    end = PAGE.read_text("utf-8").partition("## The broker")[0].count("\n")
    return [block for block in blocks(PAGE) if block.line < end]


def test_the_application_shown_is_the_one_that_is_written():
    (shown,) = (block for block in guide() if block.kind == "python")
    assert shown.body == f"# {shown.file}\n{APP.read_text('utf-8')}"
    logic = shown.body.partition("flow = ")[2].splitlines()
    assert len(logic) <= 15


@LONG
@pytest.mark.skipif(not importlib.util.find_spec("bytewax"), reason="bytewax is missing")
def test_from_nothing_to_a_verdict(kafka, tmp_path):
    new, judged, broken = (
        block for block in guide() if block.kind == "console" and "pip" not in block.body
    )
    play(new, tmp_path)
    play(judged, tmp_path)
    settings = tmp_path / "my-engine" / "engine.toml"
    text = settings.read_text("utf-8")
    assert text.count('delivery = "at-least-once"') == 1
    settings.write_text(text.replace('delivery = "at-least-once"', 'delivery = "exactly-once"'))
    play(broken, tmp_path)
