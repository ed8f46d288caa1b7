"""The shape of answers that carry more than ok: hello and topology."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ROLES = ("engine", "coordinator", "worker")


def hello_problem(answer: dict[str, Any]) -> str:
    """Return what is wrong with an answer to hello, or ""."""
    for key in ("name", "version"):
        if not isinstance(answer.get(key), str) or not answer[key]:
            return f"{key}: expected text"
    if type(answer.get("protocol")) is not int or answer["protocol"] != 1:
        return "protocol: expected 1"
    return ""


def topology_problem(answer: dict[str, Any]) -> str:
    """Return what is wrong with the shape of an answer to topology, or ""."""
    processes = answer.get("processes")
    if not isinstance(processes, list) or not processes:
        return "processes: expected a list of at least one {pid, role, name}"
    for index, process in enumerate(processes):
        where = f"processes[{index}]"
        if not isinstance(process, dict):
            return f"{where}: expected an object with pid, role and name"
        if type(process.get("pid")) is not int or not 0 < process["pid"] < 1 << 31:
            return f"{where}.pid: expected a process id"
        if process.get("role") not in ROLES:
            return f"{where}.role: expected one of {', '.join(ROLES)}"
        if not isinstance(process.get("name"), str):
            return f"{where}.name: expected text"
    return ""


#: By op: the check of an answer with ok true.
CHECKS: dict[str, Callable[[dict[str, Any]], str]] = {
    "hello": hello_problem,
    "topology": topology_problem,
}
