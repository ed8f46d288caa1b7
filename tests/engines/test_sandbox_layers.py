"""What lies over the files of the machine in a sandbox, where the kernel refuses one over all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: A user may put no layer over /, for other file systems lie below it.
SCRIPT = """
import os
from pathlib import Path
from tests import bare
from tickproof.conformance.engines import sandbox

bare.leave_namespaces()
bare.hide_folders()
base = os.fsencode({base!r})
sandbox._mount(b"tmpfs", base, b"tmpfs", 0, b"mode=755")
os.mkdir(base + b"/new")
sandbox._Layers(base, base + b"/new", [b"/", b"/proc"], []).cover(b"/")
Path({base!r}, "new" + {beside!r}).write_text("lost")
"""


#: The devices of a sandbox take what is written, and have the machine's times.
DEVICES = """
import os
from tests import bare
from tickproof.conformance.engines import sandbox

bare.leave_namespaces()
bare.hide_folders()
base = os.fsencode({base!r})
sandbox._mount(b"tmpfs", base, b"tmpfs", 0, b"mode=755")
os.mkdir(base + b"/dev")
sandbox._furnish_dev(base)
with open({base!r} + "/dev/null", "wb", buffering=0) as null:
    assert null.write(b"gone") == 4
with open({base!r} + "/dev/zero", "rb", buffering=0) as zero:
    assert zero.read(4) == bytes(4)
for name in sandbox._DEVICES:
    path = f"{base}/dev/{{name}}"
    for change in (lambda: os.utime(path, ns=(1, 1)), lambda: os.chmod(path, 0o666)):
        try:
            change()
        except OSError as error:
            assert error.errno in (30, 1), (path, error)  # EROFS, EPERM
        else:
            raise AssertionError(path)
"""


def test_a_sandbox_leaves_no_trace_in_the_devices_of_the_machine(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    script = DEVICES.format(base=str(base))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    if "unshare" in done.stderr or "leave_namespaces" in done.stderr:
        pytest.skip("no user namespace")
    assert done.returncode == 0, done.stderr


def test_a_user_writes_to_what_is_not_hidden_and_it_is_lost(tmp_path: Path) -> None:
    base, beside = tmp_path / "base", tmp_path / "beside"
    base.mkdir()
    beside.write_text("kept")
    script = SCRIPT.format(base=str(base), beside=str(beside))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    if "unshare" in done.stderr or "leave_namespaces" in done.stderr:
        pytest.skip("no user namespace")
    assert done.returncode == 0, done.stderr
    assert beside.read_text() == "kept"
