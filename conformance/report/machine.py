"""The machine and the kit in a report: no host name, no user, no path."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from tickproof import conformance

_CPU_INFO = Path("/proc/cpuinfo")
_GIT_TIMEOUT_S = 5
#: Where engine.toml does not say. Most engines wait longer than they compute.
RUNS_PER_PROCESSOR = 3


def cpu_model() -> str:
    """Return the processor's own name, or its architecture where it has none."""
    if _CPU_INFO.exists():
        for line in _CPU_INFO.read_text(errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def usable_cpus() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def runs_at_once(per_processor: int | None = None) -> int:
    """Return how many runs this machine plays at the same time.

    As many as the engine says for each processor, where there are 4 GiB of memory for each run,
    for an engine may need as much.
    """
    cpus = usable_cpus()
    return max(cpus, min((per_processor or RUNS_PER_PROCESSOR) * cpus, memory_bytes() // (4 << 30)))


def memory_bytes() -> int:
    """Return the physical memory in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def system() -> str:
    """Return kernel name, release and architecture; never the host's name."""
    return f"{platform.system()} {platform.release()} {platform.machine()}"


def git_hash() -> str | None:
    """Return the commit of the checkout the kit runs from, "-dirty" added if changed.

    None for an installed wheel, or where git cannot tell.
    """
    root = Path(conformance.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40"]
    command += ["--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def version_text() -> str:
    """Return version and, in a checkout, commit: what ``tickproof --version`` prints."""
    commit = git_hash()
    return f"{conformance.__version__} ({commit})" if commit else conformance.__version__
