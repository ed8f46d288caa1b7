"""Jars that are not in the package: brought on first use, checked, and kept in the user's cache.

``python -m tickproof.conformance.kafka.jars LIST.toml [LINK]`` prints the folder of the jars, and
makes the link LINK to it. With ``--fill`` it only writes the hashes of what comes into LIST.toml;
``--beside-pyspark`` leaves out the artifacts that the installed PySpark has, in whatever version.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final
from xml.sax.saxutils import quoteattr

import click
import tomli_w
from pydantic import Field

from tickproof.conformance import strict_toml
from tickproof.conformance.errors import InvalidFile, KafkaUnavailable
from tickproof.conformance.kafka import certificates
from tickproof.conformance.strict_toml import Table, matching
from tickproof.conformance.text import say, shown
from tickproof.reference import java

BROKER: Final = Path(__file__).with_name("broker-jars.toml")
#: A download of some 50 MB takes half a minute; a line that is slower than this is no use.
LIMIT_S: Final = 540.0
_TAIL_LINES: Final = 3
#: Lines of a client's output that are kept.
_KEPT_LINES: Final = 2000
#: The repository that Ivy asks; "": Maven Central, which it knows.
_REPOSITORY: Final = ""
#: What Java says if it does not trust a server.
_NO_TRUST: Final = ("PKIX path", "trustAnchors")

#: Where the table of hashes begins, in either form.
_TABLE: Final = re.compile(r"^\s*(?:\[\s*sha256\s*\]|sha256\s*=)", re.MULTILINE)
_VERSION: Final = re.compile(r"-\d+\.")

_Name = Annotated[str, matching(r"[a-z][a-z0-9-]{0,40}", "lower-case letters, digits and -")]
_Coordinates = Annotated[str, matching(r"[\w.-]+(:[\w.-]+){2}", "group:artifact:version")]
_File = Annotated[str, matching(r"\w[\w.+-]*\.jar", "the name of a jar")]
_Hash = Annotated[str, matching(r"[0-9a-f]{64}", "the 64 digits of a sha256")]


class JarList(Table):
    """Jars by the hash of each file, and what they come of: artifacts and all that these need."""

    name: _Name
    coordinates: Annotated[list[_Coordinates], Field(min_length=1)]
    sha256: dict[_File, _Hash] = {}

    @property
    def folder(self) -> str:
        """The name of the folder in the cache, which changes with any file of the list."""
        listed = "".join(f"{hash_}  {file}\n" for file, hash_ in sorted(self.sha256.items()))
        return f"{self.name}-{hashlib.sha256(listed.encode()).hexdigest()[:16]}"


def load(path: Path) -> JarList:
    """Read a list; raises InvalidFile."""
    return strict_toml.load(path, JarList)


def bring(wanted: JarList) -> Path:
    """Return the folder with exactly the jars of a list, which is filled where it is not whole.

    Callers that come meanwhile wait. A download is said on standard error. Raises
    KafkaUnavailable.
    """
    if not wanted.sha256:
        raise KafkaUnavailable(f"the list of {wanted.name} has no table sha256; see --fill")
    for group, artifact, version in (one.split(":") for one in wanted.coordinates):
        if (jar := f"{artifact}-{version}.jar") not in wanted.sha256:
            what = f"coordinates {group}:{artifact}:{version}: expected {jar} in its table sha256"
            raise KafkaUnavailable(f"the list of {wanted.name}: {what}; see --fill")
    cache = next(java.own_caches(), None)
    if cache is None:
        tried = ", ".join(map(str, java.caches()))
        raise KafkaUnavailable(f"expected one of these folders to be this user's own: {tried}")
    folder = cache / wanted.folder
    if _is_whole(folder, wanted):
        return folder
    with _lock(cache / f"{wanted.folder}.lock"):
        if _is_whole(folder, wanted):
            return folder
        say(f"bringing the {len(wanted.sha256)} jars of {wanted.name}, once, into {folder}")
        with tempfile.TemporaryDirectory(dir=cache, prefix=f"{wanted.name}-") as scratch:
            made = _download(wanted, Path(scratch))
            for file, hash_ in wanted.sha256.items():
                _check(made / file, hash_, wanted)
            for other in {path.name for path in made.iterdir()} - wanted.sha256.keys():
                (made / other).unlink()
            shutil.rmtree(folder, ignore_errors=True)  # damaged
            made.rename(folder)
    return folder


def fill(path: Path, *, beside_pyspark: bool = False) -> None:
    """Write the hashes of what the coordinates of a list bring as the end of its file.

    ``beside_pyspark``: without the artifacts that PySpark has. Raises InvalidFile,
    KafkaUnavailable.
    """
    listed = load(path)
    present = {_artifact(jar.name) for jar in _of_pyspark("*.jar")} if beside_pyspark else set()
    say(f"bringing {', '.join(listed.coordinates)}")
    with tempfile.TemporaryDirectory(prefix="tickproof-") as scratch:
        made = _download(listed, Path(scratch))
        found = {
            jar.name: _hash(jar)
            for jar in sorted(made.glob("*.jar"))
            if _artifact(jar.name) not in present
        }
    above = _TABLE.split(path.read_text("utf-8"), maxsplit=1)[0].rstrip()
    path.write_text(f"{above}\n\n{tomli_w.dumps({'sha256': found})}", "utf-8")


def _artifact(jar: str) -> str:
    """Return the name of a jar's file without the version."""
    return _VERSION.split(jar, maxsplit=1)[0]


def _of_pyspark(pattern: str) -> list[Path]:
    """Return jars of the installed PySpark, none without it."""
    package = importlib.util.find_spec("pyspark")
    jars = Path(package.origin).with_name("jars") if package and package.origin else None
    return sorted(jars.glob(pattern)) if jars else []


def _is_whole(folder: Path, wanted: JarList) -> bool:
    """Compare every byte: it takes a tenth of a second, and a cache may be damaged."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    if {path.name for path in folder.iterdir()} != wanted.sha256.keys():
        return False
    return all(_hash(folder / file) == hash_ for file, hash_ in wanted.sha256.items())


def _check(jar: Path, expected: str, wanted: JarList) -> None:
    came = f"what came for {', '.join(wanted.coordinates)}"
    if not jar.is_file():
        raise KafkaUnavailable(f"{came} has no {jar.name}; expected sha256 {expected}")
    if (found := _hash(jar)) != expected:
        raise KafkaUnavailable(f"{came}: {jar.name} has sha256 {found}; expected {expected}")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Wait until no other process does the same."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(wanted: JarList, scratch: Path) -> Path:
    """Have an ordinary client of Maven Central fill a folder; return it."""
    made = scratch / "jars"
    made.mkdir()
    artifacts = [(*one.split(":"),) for one in wanted.coordinates]
    trusted = certificates.trusted()
    options = trusted.java_options(scratch) if trusted else []
    command = _by_ivy(artifacts, scratch, options) or _by_maven(artifacts, scratch)
    if command is None:
        raise KafkaUnavailable(
            f"nothing here can bring the jars of {wanted.name}: expected the package pyspark, "
            "whose Ivy can (pip install 'tickproof[kafka]'), or the program mvn"
        )
    own = os.environ.get("MAVEN_OPTS", "")
    lines, why = _run(command, scratch, {"MAVEN_OPTS": " ".join([own, *options])})
    if why:
        said = _reasons(lines)
        if said and any(words in said[0] for words in _NO_TRUST):
            raise KafkaUnavailable(certificates.not_trusted(trusted, said[0]))
        tail = said[:_TAIL_LINES]
        raise KafkaUnavailable(
            f"the jars of {wanted.name} cannot be brought from Maven Central ({why}: "
            f"{'; '.join(tail) or 'no reason given'}); expected a network that reaches it"
        )
    return made


def _run(
    command: list[str], scratch: Path, environ: Mapping[str, str]
) -> tuple[Sequence[str], str]:
    """Run a client of a repository; return its last lines, and why it failed, "" if it did not.

    One that does not trust the repository is ended: it would try again for each file.
    """
    late = threading.Event()
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    try:
        client = subprocess.Popen(
            command,
            cwd=scratch,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | environ,
            errors="backslashreplace",
        )
    except OSError as error:
        raise KafkaUnavailable(f"{command[0]} cannot be run: {error.strerror}") from error

    def give_up() -> None:
        late.set()
        client.kill()

    limit = threading.Timer(LIMIT_S, give_up)
    limit.start()
    try:
        with client:
            try:
                for line in client.stdout or ():
                    lines.append(line)
                    if any(words in line for words in _NO_TRUST):
                        client.kill()
                        break
            except BaseException:
                client.kill()  # leaving the block waits for its end
                raise
    finally:
        limit.cancel()
    if late.is_set():
        return lines, f"it had not ended after {LIMIT_S:g} s"
    return lines, f"status {client.returncode}" if client.returncode else ""


def _reasons(lines: Iterable[str]) -> list[str]:
    """Return the lines with a reason, those with a cause in them first."""
    known = ("error", "exception", "not found", "unresolved")
    reasons = [line.strip() for line in lines if any(word in line.lower() for word in known)]
    return [shown(line, 300) for line in sorted(reasons, key=lambda one: "Exception" not in one)]


def _by_ivy(
    artifacts: list[tuple[str, ...]], scratch: Path, options: list[str]
) -> list[str] | None:
    """Return the command of the Ivy inside PySpark, with options for Java; None without it."""
    if not (ivy := _of_pyspark("ivy-*.jar")):
        return None
    lines = [
        f"<dependency org={quoteattr(group)} name={quoteattr(name)} rev={quoteattr(version)} "
        'conf="default->default"/>'
        for group, name, version in artifacts
    ]
    (scratch / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="tickproof" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>",
        "utf-8",
    )
    root = f" root={quoteattr(_REPOSITORY)}" if _REPOSITORY else ""
    (scratch / "settings.xml").write_text(
        '<ivysettings><settings defaultResolver="central"/><resolvers>'
        f'<ibiblio name="central" m2compatible="true"{root}/>'
        "</resolvers></ivysettings>",
        "utf-8",
    )
    # A cache of its own: Ivy's is not safe where several processes use it at once.
    return [
        str(find_java().home / "bin" / "java"),
        "-XX:TieredStopAtLevel=1",
        *options,
        "-jar",
        str(ivy[-1]),
        "-settings",
        "settings.xml",
        "-ivy",
        "ivy.xml",
        # Verbose: it says at once what fails.
        "-cache",
        str(scratch / "ivy"),
        "-confs",
        "default",
        "-verbose",
        "-retrieve",
        "jars/[artifact]-[revision](-[classifier]).[ext]",
    ]


def _by_maven(artifacts: list[tuple[str, ...]], scratch: Path) -> list[str] | None:
    """Return the command of Maven, None where it is not installed."""
    maven = shutil.which("mvn")
    if maven is None:
        return None
    lines = [
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{version}</version></dependency>"
        for group, name, version in artifacts
    ]
    (scratch / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tickproof</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{''.join(lines)}</dependencies></project>",
        "utf-8",
    )
    return [
        maven,
        "-B",
        "-q",
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={scratch / 'jars'}",
    ]


def find_java() -> java.JavaFound:
    """Return the Java that jars run on; raises KafkaUnavailable."""
    try:
        return java.find("Kafka", "kafka")
    except java.JavaNotFound as error:
        raise KafkaUnavailable(str(error)) from error


@click.command()
@click.argument("list_", type=click.Path(path_type=Path), metavar="LIST.toml")
@click.argument("link", type=click.Path(path_type=Path), required=False)
@click.option(
    "--fill", "filling", is_flag=True, help="Only write the hashes of what comes into LIST."
)
@click.option("--beside-pyspark", is_flag=True, help="With --fill: not what PySpark has.")
def main(list_: Path, link: Path | None, filling: bool, beside_pyspark: bool) -> None:
    """Bring the jars of a list; print their folder, and make LINK a link to it."""
    try:
        if filling:
            fill(list_, beside_pyspark=beside_pyspark)
            return
        folder = bring(load(list_))
        if link is not None:
            aside = link.with_name(f"{link.name}.{os.getpid()}")
            aside.symlink_to(folder)
            aside.replace(link)
    except (InvalidFile, KafkaUnavailable) as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"{link or list_}: {error.strerror}") from error
    click.echo(folder)


if __name__ == "__main__":
    main()
