"""Conditions on the machine that tests share; each says what is missing, "" if nothing is."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess

import pytest

NOBODY = 65534
REPOSITORY = ("repository.example", 443)
_LIMIT_S = 10.0


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


@functools.cache
def no_network() -> str:
    """Say that the repository of jars cannot be reached."""
    try:
        socket.create_connection(REPOSITORY, _LIMIT_S).close()
    except OSError as error:
        return f"no network that reaches {REPOSITORY[0]}: {error}"
    return ""


def needs(missing: str) -> pytest.MarkDecorator:
    """Skip a test if something is missing."""
    return pytest.mark.skipif(bool(missing), reason=missing)
