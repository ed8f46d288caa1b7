"""The tutorial, followed: its files are written and its commands run, in order."""

from __future__ import annotations

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.docs.playing import play
from tests.long import LONG

PAGE = ROOT / "docs" / "tutorial.md"


def sections() -> list[list]:
    """Return the blocks of each step: all up to a console block that is run."""
    steps, step = [], []
    for block in blocks(PAGE):
        step.append(block)
        if block.is_run:
            steps.append(step)
            step = []
    return steps


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tutorial")


@pytest.mark.parametrize("number", [1, *(pytest.param(step, marks=LONG) for step in (2, 3, 4, 5))])
def test_a_step_is_judged_as_the_page_says(number, folder):
    # Files of earlier steps are there even when this step is run alone.
    for step in sections()[:number]:
        for block in step:
            if block.file:
                path = folder / block.file
                path.parent.mkdir(exist_ok=True)
                path.write_text(block.body)
    if number == 5:
        path = folder / "my-engine" / "partition.py"
        sound, broken = "body = pickle.dumps((offset, state))\n", sections()[4][0].body
        assert path.read_text().count(sound) == 1
        path.write_text(path.read_text().replace(sound, broken))
    play(sections()[number - 1][-1], folder)


def test_there_are_five_steps():
    assert len(sections()) == 5
