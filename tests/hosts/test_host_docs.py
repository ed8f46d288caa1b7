"""docs/hosts.md names every probe, under its level."""

from __future__ import annotations

import re
from pathlib import Path

from tickproof.conformance.hosts.attestation import PROBES

PAGE = Path(__file__).parents[2] / "docs" / "hosts.md"


def test_every_probe_is_documented_under_its_level():
    levels = re.findall(r"^### (P\d).*?\n(.*?)(?=^##)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    documented = [
        (name, level)
        for level, rows in levels
        for name in re.findall(r"^\| ([a-z-]+) \|", rows, re.MULTILINE)
        if name not in ("probe", "---")
    ]
    assert documented == [(probe.name, probe.level) for probe in PROBES]
