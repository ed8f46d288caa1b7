"""Run tests with what a machine may lack hidden from them: what is missing must be a skip.

``python -m tests.bare [--only THING ...] [--but THING ...] PYTEST ARGUMENTS``. Programs are hidden
by a PATH of links to all others; the rest by namespaces, if this machine allows them. Status 3 if
something that --only names cannot be hidden; otherwise the status of pytest.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
#: Each thing that a machine may lack, and its programs. One more tool is one more row.
PROGRAMS: Final = {
    "nft": ("nft",),
    "tc": ("tc",),
    "ip": ("ip",),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "java": ("java", "javac", "jar", "keytool", "mvn"),
    "go": ("go", "gofmt"),
    "node": ("node", "npm", "npx"),
    "cargo": ("cargo", "rustc"),
    "git": ("git",),
    "compiler": ("cc", "gcc", "c99", "clang", "make"),
}
#: Variables that lead to the programs past PATH.
VARIABLES: Final = {"java": ("JAVA_HOME",), "go": ("GOROOT",), "chromium": ("CHROME_PATH",)}
NO_HOME: Final = "/dev/null/home"  # no folder can be made there, not even by root
_NEWNS, _NEWUSER, _NEWNET = 0x00020000, 0x10000000, 0x40000000
_RDONLY, _BIND, _REC, _PRIVATE = 1, 0x1000, 0x4000, 0x40000
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
#: Of which kinds no more may be made.
_LIMITS: Final = ("user", "mnt", "net", "pid", "ipc", "uts")
_libc = ctypes.CDLL(None, use_errno=True)


def call(function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def hide_programs(path: str, hidden: set[str], folder: Path) -> str:
    """Return a PATH without programs; folder: for links to all others.

    The folder of this interpreter stays, for a virtual environment is found by its path.
    """
    own = Path(sys.executable).parent
    for place in map(Path, path.split(os.pathsep)):
        if place == own or not place.is_dir():
            continue
        for program in place.iterdir():
            link = folder / program.name
            if program.name not in hidden and not link.is_symlink():
                link.symlink_to(program)
    return f"{own}{os.pathsep}{folder}"


def leave_namespaces() -> None:
    """Go to a user namespace in which this process may hide things from itself; raises OSError."""
    user, group = os.geteuid(), os.getegid()
    call(_libc.unshare, _NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        Path("/proc/self", name).write_text(text)


def hide_network() -> None:
    """Keep nothing but a loopback."""
    call(_libc.unshare, _NEWNET)
    with socket.socket() as some:
        up = struct.pack("16sH14x", b"lo", _IFF_UP)
        fcntl.ioctl(some.fileno(), _SIOCSIFFLAGS, up)


def hide_folders(*folders: str) -> None:
    """Put an empty folder that cannot be written to in the place of each that is there."""
    call(_libc.unshare, _NEWNS)
    call(_libc.mount, b"none", b"/", b"", ctypes.c_ulong(_REC | _PRIVATE), b"")
    for folder in filter(os.path.isdir, folders):
        name = os.fsencode(folder)
        call(_libc.mount, b"tmpfs", name, b"tmpfs", ctypes.c_ulong(_RDONLY), b"size=4k")


def hide_fuse() -> None:
    """Let no file system be mounted that a program serves."""
    call(_libc.unshare, _NEWNS)
    call(_libc.mount, b"none", b"/", b"", ctypes.c_ulong(_REC | _PRIVATE), b"")
    if Path("/dev/fuse").exists():
        call(_libc.mount, b"/dev/null", b"/dev/fuse", b"", ctypes.c_ulong(_BIND), b"")


def hide_namespaces() -> None:
    """Allow no more namespaces."""
    for kind in _LIMITS:
        Path(f"/proc/sys/user/max_{kind}_namespaces").write_text("0")


#: In this order: the last one keeps others from being made.
SPACES: Final = {
    "network": hide_network,
    "shm": lambda: hide_folders("/dev/shm"),
    # Its programs are on no PATH, as Debian has it.
    "postgres": lambda: hide_folders("/usr/lib/postgresql"),
    "fuse": hide_fuse,
    "namespaces": hide_namespaces,
}
THINGS: Final = (*PROGRAMS, "home", *SPACES)


def hide_spaces(things: Iterable[str]) -> dict[str, str]:
    """Hide what namespaces can hide; return what cannot be hidden, and why."""
    wanted = [thing for thing in SPACES if thing in things]
    failed = {}
    try:
        if wanted:
            leave_namespaces()
    except OSError as error:
        return dict.fromkeys(wanted, f"no user namespace: {error}")
    for thing in wanted:
        try:
            SPACES[thing]()
        except OSError as error:
            failed[thing] = str(error)
    return failed


def main() -> int:
    """Hide things from pytest."""
    parser = argparse.ArgumentParser(prog="python -m tests.bare", description=__doc__)
    parser.add_argument("--only", choices=THINGS, action="append", help="hide this alone")
    parser.add_argument("--but", choices=THINGS, action="append", default=[], help="leave this")
    given, arguments = parser.parse_known_args()
    things = [thing for thing in given.only or THINGS if thing not in given.but]
    failed = hide_spaces(things)
    for thing, why in failed.items():
        print(f"tests.bare: {thing} cannot be hidden: {why}", file=sys.stderr)
    if given.only and failed:
        return 3
    with tempfile.TemporaryDirectory(prefix="tickproof-bare-") as folder:
        hidden = {name for thing in things for name in PROGRAMS.get(thing, ())}
        dropped = {name for thing in things for name in VARIABLES.get(thing, ())}
        environ = {name: text for name, text in os.environ.items() if name not in dropped}
        environ["PATH"] = hide_programs(os.environ.get("PATH", os.defpath), hidden, Path(folder))
        if "home" in things:
            environ["HOME"] = NO_HOME
            environ.pop("XDG_CACHE_HOME", None)
        print(f"hidden: {', '.join(x for x in things if x not in failed)}", flush=True)
        command = [sys.executable, "-m", "pytest", *arguments]
        return subprocess.run(command, env=environ, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
