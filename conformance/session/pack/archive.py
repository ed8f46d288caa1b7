"""The file format of packs: a zip with a manifest, written reproducibly, read with suspicion.

All members lie in one folder. The manifest lists the size and SHA-256 of every other
member. A pack from elsewhere is not trusted: all names, types and sizes are checked before
anything is written.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tickproof import conformance
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.session.out_folder import folder_name
from tickproof.conformance.text import shown

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
#: The most that a pack may unpack to: anything larger is taken for a zip bomb. A small one may
#: become FREE_BYTES, others so many times their size: a recorded run becomes some three times its.
MAX_BYTES: Final = 4 << 30
FREE_BYTES: Final = 64 << 20
MAX_RATIO: Final = 100
MAX_MEMBERS: Final = 1_000
#: The manifest is the one member read before anything has been checked against it.
MAX_MANIFEST_BYTES: Final = 1 << 20
_CHUNK: Final = 1 << 20
#: The earliest time that a zip can hold: the time of packing must not show in the bytes.
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_FILE_MODE: Final = stat.S_IFREG | 0o644
_NAME: Final = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]*/)*[A-Za-z0-9][A-Za-z0-9._-]*")
_FOLDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class PackError(HistoryError):
    """A file that is not a pack, or a damaged one; the message names file and member."""


def write(path: Path, top: str, members: Mapping[str, Path]) -> None:
    """Write a pack: ``members`` by name within the folder ``top``; raises OSError.

    The same members give the same bytes. A reader sees the old or the new file, whole.
    """
    listed: dict[str, dict[str, Any]] = {
        name: {"bytes": file.stat().st_size, "sha256": _digest(file)}
        for name, file in sorted(members.items())
    }
    manifest = {"format": FORMAT, "kit": conformance.__version__, "members": listed}
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            text = json.dumps(manifest, indent=1) + "\n"
            archive.writestr(_info(f"{top}/{MANIFEST}", len(text)), text)
            for name in listed:
                info = _info(f"{top}/{name}", listed[name]["bytes"])
                with members[name].open("rb") as source, archive.open(info, "w") as target:
                    shutil.copyfileobj(source, target, _CHUNK)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _info(name: str, size: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = _FILE_MODE << 16
    info.file_size = size
    return info


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unpack(path: Path, folder: Path) -> list[str]:
    """Write the members of a pack, without their top folder, into the folder ``folder``.

    Returns their names. Raises PackError for anything that `write` would not have made,
    for a member that is not what the manifest says, and for a file that ends too early.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            infos = _checked_members(path, archive)
            listed = _manifest(path, archive, infos)
            for name, (size, digest) in listed.items():
                _extract(path, archive, infos[name], folder / name, size, digest)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise PackError(f"{path}: expected a whole pack (*.tickproof.zip): {error}") from error
    except OSError as error:
        raise PackError(f"{path}: cannot be unpacked: {error}") from error
    return list(listed)


def _checked_members(path: Path, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return all members, each safe to write, by name within the top folder."""
    infos = archive.infolist()
    if len(infos) > MAX_MEMBERS:
        raise PackError(f"{path}: {len(infos):,} members, expected at most {MAX_MEMBERS:,}")
    most = min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * path.stat().st_size))
    if (total := sum(info.file_size for info in infos)) > most:
        raise PackError(f"{path}: {total:,} bytes unpacked, expected at most {most:,}")
    found: dict[str, zipfile.ZipInfo] = {}
    tops = set()
    for info in infos:
        if why := _objection(info):
            raise PackError(f"{path}: member {shown(info.orig_filename, 120)!r}: {why}")
        top, _, name = info.filename.partition("/")
        if name in found:
            raise PackError(f"{path}: member {name!r}: found twice")
        tops.add(top)
        found[name] = info
    if len(tops) != 1 or MANIFEST not in found:
        raise PackError(f"{path}: expected one folder with a {MANIFEST}; this is no pack")
    return found


def _objection(info: zipfile.ZipInfo) -> str:
    """Say what is wrong with a member, "" if nothing."""
    name, kind = info.orig_filename, stat.S_IFMT(info.external_attr >> 16)
    if name.startswith("/") or ":" in name or "\\" in name:
        return "expected a relative name"
    if ".." in name.split("/"):
        return "expected a name that stays in its folder"
    if "/" not in name or not _NAME.fullmatch(name):
        return "expected a file in a folder, its name of letters, digits, dots and dashes"
    if kind not in (0, stat.S_IFREG):
        return "expected a plain file, no link nor anything else"
    if info.flag_bits & 0x1:
        return "expected no encryption"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"expected stored or deflated, got compression {info.compress_type}"
    return ""


def _manifest(
    path: Path, archive: zipfile.ZipFile, infos: Mapping[str, zipfile.ZipInfo]
) -> dict[str, tuple[int, str]]:
    """Return size and SHA-256 of each member, from a manifest that fits the archive."""
    if infos[MANIFEST].file_size > MAX_MANIFEST_BYTES:
        raise PackError(f"{path}: {MANIFEST}: expected at most {MAX_MANIFEST_BYTES:,} bytes")
    try:
        manifest = json.loads(archive.read(infos[MANIFEST]))
        found: Any = manifest["format"]
        if found == FORMAT:
            listed = {n: (row["bytes"], row["sha256"]) for n, row in manifest["members"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise PackError(f"{path}: {MANIFEST}: expected a manifest of a pack: {error!r}") from error
    if found != FORMAT:
        raise PackError(f"{path}: {MANIFEST}: format {found!r}, expected {FORMAT}")
    if odd := listed.keys() ^ (infos.keys() - {MANIFEST}):
        name = min(odd)
        where = "not in the manifest" if name in infos else "in the manifest only"
        raise PackError(f"{path}: member {shown(name, 120)!r}: {where}; the pack was altered")
    return listed


def _extract(
    path: Path,
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    target: Path,
    size: Any,
    digest: Any,
) -> None:
    """Write one member; raises PackError where it is not what the manifest says."""
    target.parent.mkdir(parents=True, exist_ok=True)
    found, left = hashlib.sha256(), info.file_size
    with archive.open(info) as source, target.open("xb") as file:
        while left > 0 and (chunk := source.read(min(_CHUNK, left))):
            file.write(chunk)
            found.update(chunk)
            left -= len(chunk)
    if size != info.file_size or left or found.hexdigest() != digest:
        name = info.filename.partition("/")[2]
        raise PackError(
            f"{path}: member {name!r}: not the bytes that the manifest names; "
            "the pack was cut or altered"
        )


def top_folder(text: str) -> str:
    """Return ``text`` as the name of a pack's folder."""
    name = folder_name(text, 80)
    return name if _FOLDER.fullmatch(name) else "run"
