"""The page about recordings, followed: its files are written and its commands run."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.docs.playing import play

PAGE = ROOT / "docs" / "judge.md"
RECORDINGS = ("orders.jsonl", "paid.jsonl", "totals.jsonl")
BLOCKS = blocks(PAGE)


@pytest.mark.parametrize("number", range(2))
def test_recordings_are_judged_as_the_page_says(number, tmp_path):
    texts = [block.body for block in BLOCKS if block.kind == "text"]
    for name, text in zip(RECORDINGS, texts, strict=True):
        assert re.search(f"^`{name}`, .*:$\n```text\n{re.escape(text)}", PAGE.read_text(), re.M)
        (tmp_path / name).write_text(text)
    for block in BLOCKS:
        if block.file:
            (tmp_path / block.file).write_text(block.body)
    commands = [block for block in BLOCKS if block.is_run]
    assert len(commands) == 2
    play(commands[number], tmp_path)
