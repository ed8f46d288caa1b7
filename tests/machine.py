"""Conditions on the machine that tests share; each says what is missing, "" if nothing is."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

import psutil
import pytest

NOBODY = 65534


def no_program(*names: str) -> str:
    """Say which program is not on PATH."""
    return next((f"no {name}" for name in names if shutil.which(name) is None), "")


@functools.cache
def no_other_user() -> str:
    """Say why no program can be started as another user: it takes root, and root in full."""
    if os.geteuid() != 0:
        return "only root can start programs as another user"
    try:
        subprocess.run(["true"], user=NOBODY, group=NOBODY, extra_groups=[], check=False)
    except OSError as error:
        return f"this root cannot start programs as another user: {error}"
    return ""


def no_shared_memory() -> str:
    """Say that processes cannot share semaphores."""
    return "" if os.access("/dev/shm", os.W_OK) else "no /dev/shm that can be written to"


def no_network() -> str:
    """Say that there is no network interface but the loopback one."""
    up = [name for name, facts in psutil.net_if_stats().items() if facts.isup and name != "lo"]
    return "" if up else "no network"


def needs(missing: str) -> pytest.MarkDecorator:
    """Skip a test if something is missing."""
    return pytest.mark.skipif(bool(missing), reason=missing)
