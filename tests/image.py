"""Build the image of the Containerfile, and judge in it.

``python -m tests.image [--folder DIR] [-- ARGUMENTS OF tickproof run]`` needs root, debootstrap,
buildah and a network. No registry of images is asked: a minimal Debian with its own Python stands
in for the image that the Containerfile begins with. Prints sizes; status 1 if a session fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.fresh_machine import PACKAGES, ROOT, base, passed, settle

SUITE: Final = "bookworm"
TOOLS: Final = ("debootstrap", "buildah")
NAME: Final = "localhost/tickproof"
#: A tier over the log, and a death over the broker whose jars the image has.
SESSIONS: Final = (("miniature", "--tier", "0"), ("kafka-miniature", "--only", "EO-ENGINE-DEATH"))
#: Where Debian looks for certificates that are not Mozilla's.
OWN_CERTIFICATES: Final = "usr/local/share/ca-certificates"
CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", re.S)


class Store:
    """Images and containers below a folder, made without any program that keeps running."""

    def __init__(self, folder: Path) -> None:
        self._roots = ["--root", str(folder / "images"), "--runroot", str(folder / "run")]
        settings = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
        self._environ = {**os.environ, **settings}

    def said(self, *words: str | Path) -> str:
        """Run buildah; return what it says on stdout."""
        command = ["buildah", *self._roots, *map(str, words)]
        done = subprocess.run(
            command, env=self._environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
        )
        return done.stdout.decode().strip()

    def status(self, *words: str | Path) -> int:
        """Run buildah, and let it print; return its status."""
        command = ["buildah", *self._roots, *map(str, words)]
        return subprocess.run(command, env=self._environ, stdin=subprocess.DEVNULL).returncode

    def megabytes(self, image: str) -> int:
        """Return the size of an image, all layers together."""
        for one in json.loads(self.said("images", "--json")):
            if any(name.startswith(image) for name in one["names"]):
                number, unit = one["size"].split()  # as "1.54 GB"
                return round(float(number) * {"KB": 0.001, "MB": 1, "GB": 1_000}[unit])
        raise LookupError(image)


def stand_in(made: Path, root: Path) -> Path:
    """Make ``root`` of a minimal Debian: a file system with the commands of an image of Python."""
    subprocess.run(["cp", "-a", "--", made, root], check=True)
    settle(root)
    trusted = (root / "etc/ssl/certs/ca-certificates.crt").read_text("ascii", "replace")
    for number, one in enumerate(CERTIFICATE.findall(trusted)):
        (root / OWN_CERTIFICATES / f"{number}.crt").write_text(one, "ascii")
    (root / "usr/bin/python").symlink_to("python3")
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    return root


def build(store: Store, debian: Path, folder: Path) -> None:
    """Build the image from a clean clone of HEAD."""
    context = folder / "tickproof"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, context], check=True)
    (begins,) = re.findall(r"^FROM (\S+)", (context / "Containerfile").read_text("utf-8"), re.M)
    container = store.said("from", "scratch")
    store.said("copy", "--quiet", container, stand_in(debian, folder / "root"), "/")
    store.said("commit", "--quiet", container, begins)
    store.said("rm", container)
    variables = [word for name, text in passed().items() for word in ("--env", f"{name}={text}")]
    words = ("--pull-never", "--network", "host", "--tag", NAME, *variables)
    store.said("bud", *words, "--file", context / "Containerfile", context)
    print(f"{NAME}: {store.megabytes(NAME)} MB, {store.megabytes(begins)} MB of them {begins}")


def main() -> int:
    """Build, and play some sessions as the user of the image."""
    parser = argparse.ArgumentParser(prog="python -m tests.image", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp/tickproof-fresh"))
    parser.add_argument("run", nargs="*", help="a session instead of those that are played")
    given = parser.parse_args()
    if os.geteuid() != 0 or not all(map(shutil.which, TOOLS)):
        print(f"expected to be root, and {' and '.join(TOOLS)} on PATH", file=sys.stderr)
        return 2
    kept = given.folder / "image"
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="image-") as scratch:
        folder = Path(scratch)
        store = Store(folder)
        build(store, base(kept, SUITE, f"{PACKAGES},python3-pip"), folder)
        container = store.said("from", "--pull-never", NAME)
        try:
            entry = ("run", container, "--", "tickproof", "run", "--out", "/tmp/out")
            sessions = [tuple(given.run)] if given.run else SESSIONS
            return int(any([store.status(*entry, *session) for session in sessions]))
        finally:
            store.said("rm", container)


if __name__ == "__main__":
    raise SystemExit(main())
