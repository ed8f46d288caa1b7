"""Run a command on chosen cores, with a policy and the right to lock its memory."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, listed, parse_list
from tickproof.conformance.hosts.model import HostError
from tickproof.conformance.hosts.realtime import LEAST_PRIORITY, MOST_PRIORITY

POLICIES = {"other": os.SCHED_OTHER, "fifo": os.SCHED_FIFO, "rr": os.SCHED_RR}
#: What no wrapper can do; printed whenever a lock is asked for.
LOCK_NOTE = (
    "locked memory: a lock does not survive the start of a command, so nothing is locked yet: "
    "the command has to call mlockall itself"
)


@dataclass(frozen=True)
class Pinning:
    """Cores and policy of a command. cores: () leaves them, policy: "" leaves it.

    lock: raise the limit of memory that the command may lock, to unlimited.
    """

    cores: tuple[int, ...] = ()
    policy: str = ""
    priority: int = 0
    lock: bool = False


def requested(cores: str | None, policy: str | None, priority: int | None, lock: bool) -> Pinning:
    """Check the options; raises HostError, naming the option and what is expected."""
    if policy in ("fifo", "rr"):
        if priority is None or not LEAST_PRIORITY <= priority <= MOST_PRIORITY:
            got = "none" if priority is None else priority
            raise HostError(
                f"--priority: expected {LEAST_PRIORITY} to {MOST_PRIORITY} with "
                f"--policy {policy}; got {got}"
            )
    elif priority is not None:
        raise HostError("--priority: expected only with --policy fifo or rr")
    if cores is None and policy is None and not lock:
        raise HostError("expected some of --cores, --policy and --lock")
    return Pinning(_cores(cores) if cores is not None else (), policy or "", priority or 0, lock)


def _cores(text: str) -> tuple[int, ...]:
    cores = parse_list(text)
    if cores is None:
        raise HostError(f"--cores: expected a list such as 0-3,8; got {text!r}")
    try:
        online = HostFiles().online
    except Unobservable:
        online = tuple(range(os.cpu_count() or 1))
    if missing := set(cores) - set(online):
        raise HostError(f"--cores: not present: {listed(missing)}; online are {listed(online)}")
    return cores


def program(command: Sequence[str]) -> str:
    """Return the path of the program that a command starts; raises HostError for none."""
    if found := shutil.which(command[0]):
        return found
    raise HostError(f"{command[0]}: expected a program, by path or on PATH; there is none")


def apply(pinning: Pinning) -> list[str]:
    """Set this process as asked; return in words what could not be set.

    What was set is inherited by the command and by everything that it starts.
    """
    refused = []
    if pinning.cores and (why := _set_cores(pinning.cores)):
        refused.append(f"cores {listed(pinning.cores)}: {why}")
    if pinning.policy and (why := _set_policy(pinning)):
        named = f"{pinning.policy} {pinning.priority}" if pinning.priority else pinning.policy
        refused.append(f"policy {named}: {why}")
    if pinning.lock and (why := _raise_limit()):
        refused.append(f"limit of locked memory: {why}")
    return refused


def _set_cores(cores: tuple[int, ...]) -> str:
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        return f"{error.strerror}: the cpuset of this process has none of them"
    # The kernel drops cores outside of the cpuset without a word.
    if dropped := set(cores) - os.sched_getaffinity(0):
        return f"the cpuset of this process has no {listed(dropped)}"
    return ""


def _set_policy(pinning: Pinning) -> str:
    try:
        os.sched_setscheduler(0, POLICIES[pinning.policy], os.sched_param(pinning.priority))
    except OSError as error:
        limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
        return (
            f"{error.strerror}: needs CAP_SYS_NICE, or an rtprio limit of {pinning.priority} "
            f"or more (it is {limit})"
        )
    return ""


def _raise_limit() -> str:
    """Raise the limit of locked memory as far as allowed; return what is missing, or ""."""
    infinite = resource.RLIM_INFINITY
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (infinite, infinite))
    except (OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
        if hard != infinite:
            return f"stays at the hard limit of {hard} bytes; needs CAP_SYS_RESOURCE"
    return ""


def exec_command(path: str, command: Sequence[str]) -> None:
    """Replace this process by the command; returns only by raising HostError."""
    # Python ignores these, and the command would inherit that.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execv(path, list(command))
    except OSError as error:
        raise HostError(f"{command[0]}: cannot be started: {error.strerror}") from error
