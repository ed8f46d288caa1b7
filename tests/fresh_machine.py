"""Run the two commands of the README on a fresh machine: a minimal Debian in a folder.

``python -m tests.fresh_machine [--suite trixie] [--user root] [--folder DIR] [-- TOX ARGUMENTS]``
needs root, debootstrap and a network. For each suite it makes a root file system with Python, git
and CA certificates, and for each user a copy of it with a clean clone of HEAD. There it installs
tox and runs ``tox -e conformance`` and ``tox``, or tox with the given arguments. Status 1 if a
command fails.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
#: The oldest Python that the kit takes, and a newer one.
SUITES = ("bookworm", "trixie")
USERS = ("root", "tester")
PACKAGES = "python3,python3-venv,git,ca-certificates"
COMMANDS = (("-e", "conformance"), ())
#: The certificates of this machine, and the settings of its network and of pip, come along.
SETTINGS = ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt")
VARIABLES = ("PIP_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "TICKPROOF_", "http_", "https_", "no_")
#: Mounts exist in a namespace of their own, and processes too: nothing outlives the command.
#: The root is changed for good, since a program in a chroot may make no namespace of users.
MACHINE = """
mount --make-rprivate / && mount --bind "$1" "$1" && cd "$1" &&
mount --rbind /dev dev && mount -t proc proc proc && mount --rbind /sys sys &&
mount -t tmpfs -o mode=1777 tmpfs dev/shm && pivot_root . mnt && umount -l /mnt &&
shift && exec "$@"
"""
SAMPLE_S = 1.0


def base(folder: Path, suite: str, packages: str = PACKAGES) -> Path:
    """Return the root file system of a suite; it is made once in a folder."""
    made = folder / suite
    if not made.is_dir():
        half = folder / f"{suite}.part"
        shutil.rmtree(half, ignore_errors=True)
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={packages}", suite, half],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        half.rename(made)
    return made


@contextmanager
def machine(folder: Path, suite: str) -> Iterator[Path]:
    """Give a copy of a suite's file system with this machine's settings and a clean clone."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=f"{suite}-") as scratch:
        root = Path(scratch, "root")
        subprocess.run(["cp", "-a", "--", base(folder, suite), root], check=True)
        settle(root)
        enter(root, "root", "useradd --create-home tester", check=True)
        for user, home in (("root", "root"), ("tester", "home/tester")):
            checkout = root / home / "tickproof"
            subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, checkout], check=True)
            enter(root, "root", f"chown -R {user} ~{user}/tickproof", check=True)
        yield root


def settle(root: Path) -> None:
    """Give a file system the settings of this machine's network."""
    files = {Path("/", name) for name in SETTINGS}
    files |= {Path(text) for text in passed().values() if text.startswith("/")}
    for file in files:
        if file.is_file():
            (root / file.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, root / file.relative_to("/"))


def passed() -> dict[str, str]:
    """Return the variables that the machine gets of this one's."""
    return {name: text for name, text in os.environ.items() if name.startswith(VARIABLES)}


def command(root: Path, user: str, script: str) -> list[str]:
    """Return the command that runs a shell script on the machine."""
    variables = [f"{name}={text}" for name, text in passed().items()]
    home = "/root" if user == "root" else f"/home/{user}"
    rights = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
    return [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        MACHINE,
        "sh",
        str(root),
        *(rights if user != "root" else []),
        "env",
        "-i",
        f"HOME={home}",
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG=C.UTF-8",
        *variables,
        "sh",
        "-c",
        script,
    ]


def enter(root: Path, user: str, script: str, check: bool = False) -> int:
    """Run a shell script on the machine; return its status."""
    return subprocess.run(
        command(root, user, script), stdin=subprocess.DEVNULL, check=check
    ).returncode


def measured(root: Path, user: str, script: str) -> int:
    """Run a shell script on the machine and print what it took; return its status."""
    disk, start, most = used(root), time.monotonic(), 0
    print(f"\n{root.parent.name} {user}: {script}", flush=True)
    with subprocess.Popen(command(root, user, script), stdin=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                most = max(most, memory(psutil.Process(process.pid)))
                time.sleep(SAMPLE_S)
        except BaseException:
            # The first below unshare is the init of all: with it, nothing is left.
            for init in psutil.Process(process.pid).children():
                init.kill()
            process.kill()
            raise
    took, grown = time.monotonic() - start, used(root) - disk
    print(
        f"{root.parent.name} {user}: {script}: status {process.returncode}, {took / 60:.1f} min, "
        f"{grown / 1e9:.1f} GB of disk more, at most {most / 2**30:.1f} GiB of memory",
        flush=True,
    )
    return process.returncode


def used(root: Path) -> int:
    """Return the bytes of disk that a file system takes."""
    done = subprocess.run(["du", "-sx", "-B1", root], capture_output=True, text=True, check=False)
    return int(done.stdout.split()[0])


def memory(process: psutil.Process) -> int:
    """Return the memory of a process and of all below it, each shared page once."""
    total = 0
    for one in [process, *process.children(recursive=True)]:
        try:
            total += one.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def main() -> int:
    """Try each suite as each user."""
    parser = argparse.ArgumentParser(prog="python -m tests.fresh_machine", description=__doc__)
    parser.add_argument("--suite", choices=SUITES, action="append")
    parser.add_argument("--user", choices=USERS, action="append")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/tickproof-fresh"))
    parser.add_argument("tox", nargs="*", help="instead of the two commands of the README")
    given = parser.parse_args()
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        print("expected to be root, and debootstrap on PATH", file=sys.stderr)
        return 2
    given.folder.mkdir(parents=True, exist_ok=True)
    status = 0
    for suite in given.suite or SUITES:
        for user in given.user or USERS:
            with machine(given.folder, suite) as root:
                set_up = "python3 -m venv .venv && .venv/bin/pip install --quiet tox"
                enter(root, user, f"cd ~/tickproof && {set_up}", check=True)
                for arguments in [given.tox] if given.tox else COMMANDS:
                    tox = shlex.join([".venv/bin/tox", *arguments])
                    status |= measured(root, user, f"cd ~/tickproof && {tox}") != 0
    return status


if __name__ == "__main__":
    raise SystemExit(main())
