"""Commands and programs of the documents: run, or held against what exists."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib

import pytest

from tests.docs.blocks import KINDS, ROOT, Block, all_blocks
from tests.docs.commands import NoSuchCommand, check
from tests.docs.playing import play

BLOCKS = all_blocks()
CONSOLE = [block for block in BLOCKS if block.kind in ("console", "yaml")]
PYTHON = [block for block in BLOCKS if block.kind == "python"]
#: Pages whose blocks build on each other have a test of their own: test_tutorial.py, test_judge.py.
ALONE = [
    block
    for block in CONSOLE
    if block.is_run and block.page not in ("docs/tutorial.md", "docs/judge.md")
]


def test_every_block_says_what_it_is():
    assert [(str(block), block.kind) for block in BLOCKS if block.kind not in KINDS] == []


def test_a_block_of_the_shell_has_a_command():
    assert [str(block) for block in CONSOLE if not block.commands] == []


@pytest.mark.parametrize("block", CONSOLE, ids=str)
def test_commands_exist(block):
    for command in block.commands:
        check(command)


@pytest.mark.parametrize(
    "command",
    [
        "tickproof convict miniature",
        "tickproof run miniature --fast",
        "tickproof run nobody",
        "tickproof run mutant:not-a-mutant",
        "tickproof run miniature --only EO-NOTHING",
        "tickproof run miniature --profile huge",
        "tickproof check RUN AND MORE",
        "tox -e nothing",
        "pip install 'tickproof[sparks]'",
        "python -m tickproof.conformance.nothing",
        "pytest tests/none",
        "make all",
    ],
)
def test_a_command_that_does_not_exist_is_found(command):
    with pytest.raises(NoSuchCommand, match=re.escape(command)):
        check(command)


@pytest.mark.parametrize("block", ALONE, ids=str)
def test_commands_print_what_is_shown(block, tmp_path):
    play(block, tmp_path)


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind in ("toml", "json")], ids=str)
def test_data_is_read(block):
    (tomllib if block.kind == "toml" else json).loads(block.body)


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_programs_compile_and_import_what_exists(block):
    for node in ast.walk(ast.parse(block.body)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tickproof"):
            try:
                module = importlib.import_module(node.module)
            except ModuleNotFoundError as error:
                pytest.skip(f"needs {error.name}")
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                assert hasattr(module, alias.name) or importlib.util.find_spec(inner), inner


def named(page: str) -> dict[str, Block]:
    return {block.file: block for block in BLOCKS if block.page == page and block.file}


def environment(folder) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}


def test_the_app_of_the_reference_passes_its_test(tmp_path):
    for file, block in named("reference/README.md").items():
        (tmp_path / file).write_text(block.body)
    code = "import test_count; test_count.test_two_keys()"
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(tmp_path),
        check=True,
        timeout=60,
    )
