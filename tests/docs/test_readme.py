"""The door of the project: short, and its adapter passes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.docs.blocks import ROOT, blocks
from tests.long import LONG
from tickproof.conformance.resources import fixtures
from tickproof.conformance.suites import registry


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_bytes()) <= 8_000


def test_what_the_readme_counts_is_there():
    text = (ROOT / "README.md").read_text()
    counted = {
        f"{len(registry.load())} requirements",
        f"{len(list((fixtures() / 'mutants').glob('*.toml')))} mutants must fail",
        f"{len(list((fixtures() / 'sound_variants').glob('*.toml')))} unusual but correct variants",
    }
    assert not [one for one in counted if one not in text]


@LONG
def test_the_adapter_passes_tier_0(tmp_path):
    pages = {name: blocks(ROOT / name) for name in ("README.md", "docs/tutorial.md")}
    settings = next(one for one in pages["docs/tutorial.md"] if one.kind == "toml")
    adapter = next(one for one in pages["README.md"] if one.file)
    assert len(adapter.body.splitlines()) <= 55
    (tmp_path / "my-engine").mkdir()
    for block in (settings, adapter):
        (tmp_path / block.file).write_text(block.body)
    done = subprocess.run(
        [sys.executable, "-m", "tickproof", "run", "my-engine/engine.toml", "--tier", "0"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout
    report = json.loads((tmp_path / "tickproof-out/mine/report.json").read_text())
    verdicts = [one["verdict"] for one in report["requirements"]]
    assert verdicts.count("pass") == len(verdicts) == 23
