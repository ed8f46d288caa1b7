"""The file of a pack: the same bytes each time, and nothing believed of what comes in."""

from __future__ import annotations

import hashlib
import json
import random
import stat
import zipfile

import pytest

from tickproof.conformance.session.pack import archive
from tickproof.conformance.session.pack.archive import PackError, unpack, write

MEMBERS = {"run.json": b"{}\n", "output/s0.log": bytes(range(256)) * 500, "empty.bin": b""}


@pytest.fixture
def made(tmp_path):
    """A good pack."""
    members = {}
    for name, content in MEMBERS.items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        members[name] = path
    write(tmp_path / "a.zip", "top", members)
    return tmp_path / "a.zip"


def unpacked(path, folder):
    names = unpack(path, folder)
    found = {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }
    assert sorted(names) == sorted(found)
    return found


def test_what_was_packed_comes_out(made, tmp_path):
    assert unpacked(made, tmp_path / "out") == MEMBERS
    assert not list(tmp_path.glob("*.part"))


def test_the_same_members_give_the_same_bytes(made, tmp_path):
    members = {name: tmp_path / "source" / name for name in reversed(MEMBERS)}
    members["run.json"].touch()
    write(tmp_path / "b.zip", "top", members)
    assert made.read_bytes() == (tmp_path / "b.zip").read_bytes()


def forged(path, entries, manifest=None):
    """Write a zip of (name or ZipInfo, bytes), with a manifest that fits unless given."""
    listed = {
        name.partition("/")[2]: {"bytes": len(b), "sha256": hashlib.sha256(b).hexdigest()}
        for name, b in ((getattr(n, "filename", n), b) for n, b in entries)
    }
    fitting = json.dumps({"format": 1, "members": listed})
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("top/manifest.json", fitting if manifest is None else manifest)
        for name, content in entries:
            file.writestr(name, content)
    return path


def link(name):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def other_compression(name):
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_BZIP2
    return info


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/etc/passwd", "a relative name"),
        ("top/../../evil", "stays in its folder"),
        ("top/..", "stays in its folder"),
        ("top\\evil", "a relative name"),
        ("C:/evil", "a relative name"),
        ("top/a\x1b[31m", "letters, digits"),
        ("top/.bashrc", "letters, digits"),
        ("top/folder/", "letters, digits"),
        ("top//a", "letters, digits"),
        ("evil", "a file in a folder"),
        (link("top/run.json"), "no link"),
        (other_compression("top/run.json"), "expected stored or deflated"),
        ("other/run.json", "one folder"),
    ],
    ids=str,
)
def test_a_member_that_no_pack_has_is_refused(tmp_path, name, said):
    path = forged(tmp_path / "a.zip", [("top/good.bin", b"x"), (name, b"evil")])
    (tmp_path / "out").mkdir()
    with pytest.raises(PackError, match=said):
        unpack(path, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip", "out"]


def test_a_name_that_comes_twice_is_refused(tmp_path):
    with pytest.warns(UserWarning, match="Duplicate"):
        path = forged(tmp_path / "a.zip", [("top/a.bin", b"x"), ("top/a.bin", b"y")])
    with pytest.raises(PackError, match="found twice"):
        unpack(path, tmp_path / "out")


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ("[]", "a manifest of a pack"),
        ("{", "a manifest of a pack"),
        ('{"format": 1}', "a manifest of a pack"),
        ('{"format": 1, "members": {"a.bin": 7}}', "a manifest of a pack"),
        ("[" * 100_000, "a manifest of a pack"),
        ('{"format": 2, "members": {}}', "format 2, expected 1"),
        ('{"format": 1, "members": {}}', "'a.bin': not in the manifest"),
        ('{"format": 1, "members": {"a.bin": {"bytes": 1, "sha256": "00"}}}', "not the bytes"),
        ('{"format": 1, "members": {"a.bin": {"bytes": 1, "sha256": 7}}}', "not the bytes"),
        ('{"format": 1, "members": {"a.bin": {"bytes": 1, "sha256": ""}, "b": {"bytes": 0, '
         '"sha256": ""}}}', "'b': in the manifest only"),
        (" " * (archive.MAX_MANIFEST_BYTES + 1), "expected at most"),
    ],
)  # fmt: skip
def test_a_manifest_that_does_not_fit_is_refused(tmp_path, manifest, said):
    path = forged(tmp_path / "a.zip", [("top/a.bin", b"x")], manifest)
    with pytest.raises(PackError, match=said):
        unpack(path, tmp_path / "out")


def test_a_bomb_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    path = forged(tmp_path / "a.zip", [("top/a.bin", bytes(100_000))])
    monkeypatch.setattr(archive, "MAX_BYTES", 99_999)
    with pytest.raises(PackError, match="expected at most 99,999"):
        unpack(path, tmp_path / "out")
    monkeypatch.undo()
    monkeypatch.setattr(archive, "FREE_BYTES", 99_999)
    monkeypatch.setattr(archive, "MAX_RATIO", 0.5)
    with pytest.raises(PackError, match="expected at most 99,999"):
        unpack(path, tmp_path / "out")
    monkeypatch.setattr(archive, "MAX_RATIO", 2)
    assert unpack(path, tmp_path / "whole") == ["a.bin"]
    monkeypatch.undo()
    monkeypatch.setattr(archive, "MAX_MEMBERS", 1)
    with pytest.raises(PackError, match="2 members, expected at most 1"):
        unpack(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_size_that_lies_is_refused(made, tmp_path):
    """A bomb may name a small size in the directory that is read first."""
    content = made.read_bytes()
    size = len(MEMBERS["output/s0.log"])
    lie = content.replace(size.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    assert lie != content
    made.write_bytes(lie)
    with pytest.raises(PackError):
        unpack(made, tmp_path / "out")
    assert not any(p.stat().st_size > 10 for p in (tmp_path / "out").rglob("*.log"))


def test_a_truncated_file_is_refused_wherever_it_ends(made, tmp_path):
    content = made.read_bytes()
    for left in [*range(0, len(content), 41), len(content) - 1]:
        made.write_bytes(content[:left])
        with pytest.raises(PackError, match=r"a\.zip"):
            unpack(made, tmp_path / f"out{left}")


def test_an_altered_byte_is_refused_or_changes_nothing(made, tmp_path):
    content = made.read_bytes()
    rng = random.Random(1)
    refused = 0
    for number in range(300):
        altered = bytearray(content)
        altered[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        made.write_bytes(altered)
        try:
            assert unpacked(made, tmp_path / str(number)) == MEMBERS
        except PackError:
            refused += 1
    assert refused > 100


def test_what_is_no_zip_is_refused(tmp_path):
    for content in (b"", b"PK", b"hello", bytes(1000)):
        (tmp_path / "a.zip").write_bytes(content)
        with pytest.raises(PackError, match="expected a whole pack"):
            unpack(tmp_path / "a.zip", tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "name"),
    [("a b/c", "a-b-c"), ("..", "run"), ("", "run"), ("-x.", "x"), ("é", "run"), ("_a", "run"),
     ("x" * 200, "x" * 80)],
)  # fmt: skip
def test_any_text_makes_a_name_of_a_folder(text, name):
    assert archive.top_folder(text) == name
