"""How far a job of Structured Streaming has come, by its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tickproof.conformance.jobs.checkpoint import handled

SETTINGS = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("offsets", "commits", "sources"):
        (tmp_path / name).mkdir()
    return tmp_path


def planned(folder: Path, batch: int, *sources: str) -> None:
    (folder / "offsets" / str(batch)).write_text("\n".join(("v1", SETTINGS, *sources)))
    (folder / "offsets" / f".{batch}.crc").write_bytes(b"crc")


def test_a_batch_counts_once_it_is_committed(folder: Path) -> None:
    assert handled(folder, {"orders"}) == 0
    planned(folder, 0, '{"orders":{"1":5,"0":7}}')
    assert handled(folder, {"orders"}) == 0
    (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (folder / "commits" / ".1.4f2.tmp").write_text("v1")
    assert handled(folder, {"orders"}) == 12
    for batch in (9, 10):
        planned(folder, batch, f'{{"orders":{{"1":{batch},"0":7}}}}', "-", '{"others":{"0":3}}')
        (folder / "commits" / str(batch)).write_text("v1\n{}")
    assert handled(folder, {"orders"}) == 17
    assert handled(folder, {"orders", "others"}) == 20


@pytest.mark.parametrize("text", ["", "v1", "v1\n{}\n{", 'v1\n{}\n{"orders":7}', "v1\n{}\n\udcff"])
def test_what_cannot_be_read_counts_as_nothing(folder: Path, text: str) -> None:
    (folder / "offsets" / "0").write_text(text, "utf-8", "surrogateescape")
    (folder / "commits" / "0").write_text("v1\n{}")
    assert handled(folder, {"orders"}) == 0
    assert handled(folder / "missing", {"orders"}) == 0
