"""The commands by which the documents have a pack signed, as they stand there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks

PAGE = "docs/runs.md"


@pytest.fixture
def commands(tmp_path: Path) -> tuple[str, str]:
    """How a pack is signed, and how that is verified, with a key of our own in ``tmp_path``."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    make = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key")
    subprocess.run(make, check=True, timeout=60)
    key = (tmp_path / "key.pub").read_text()
    (tmp_path / "allowed_signers").write_text(f"you@example.org {key}")
    found = [one for block in blocks(ROOT / PAGE) for one in block.commands]
    sign, verify = [one for one in found if one.startswith("ssh-keygen")]
    return sign.replace("~/.ssh/id_ed25519", "key"), verify


def said(command: str, folder: Path) -> tuple[int, str]:
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_a_signature_stands_for_every_byte(tmp_path: Path, commands: tuple[str, str]) -> None:
    sign, verify = commands
    pack = tmp_path / "PACK"
    pack.write_bytes(bytes(range(256)) * 64)
    status, text = said(sign, tmp_path)
    assert status == 0, text
    status, text = said(verify, tmp_path)
    assert (status, 'Good "tickproof" signature for you@example.org' in text) == (0, True), text
    changed = bytearray(pack.read_bytes())
    changed[1000] ^= 1
    pack.write_bytes(changed)
    status, text = said(verify, tmp_path)
    assert status != 0, text


def test_nobody_else_signs_for_you(tmp_path: Path, commands: tuple[str, str]) -> None:
    sign, verify = commands
    (tmp_path / "PACK").write_bytes(b"evidence")
    assert said(sign, tmp_path)[0] == 0
    status, text = said(verify.replace("you@", "somebody.else@"), tmp_path)
    assert status != 0, text
