"""Tables of Apache Iceberg as output: what the catalog has not taken is no row."""

from __future__ import annotations

import shutil
import sqlite3
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tickproof.conformance import jobs
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.file_sink import FilesSink
from tickproof.conformance.jobs.sinks import BadOutput

pytest.importorskip("pyiceberg")
from pyiceberg import manifest as manifests
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import FileFormat

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32())])


def sink(state: Path, catalog: str | None = None) -> FilesSink:
    table = OutputTable(files="out", identity=["id"], catalog=catalog)
    return FilesSink(table, state, "priced")


def ids(made: FilesSink, ended: bool = True) -> list[Any]:
    return sorted(value["id"] for _, value in made.rows(ended))


def append(state: Path, *rows: int) -> Any:
    """Append rows to the table in the folder "out", which catalog.db has; return the table."""
    catalog = SqlCatalog("c", uri=f"sqlite:///{state}/catalog.db")
    catalog.create_namespace_if_not_exists("shop")
    table = catalog.create_table_if_not_exists("shop.out", SCHEMA, location=f"file://{state}/out")
    days = [date(2024, 1, 1 + one % 2) for one in rows]
    table.append(pa.table({"id": rows, "day": days}, schema=SCHEMA))
    return table


def newest(state: Path) -> Path:
    found = (state / "out/metadata").glob("*.metadata.json")
    return max(found, key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize("catalog", [None, "{state}/catalog.db"])
def test_a_table_has_the_rows_of_its_newest_version(tmp_path: Path, catalog: str | None) -> None:
    made = sink(tmp_path, catalog)
    assert ids(made) == []
    append(tmp_path, 1, 2)
    before = made.position()
    assert ids(made) == [1, 2]
    table = append(tmp_path, 2, 3)
    assert made.position() != before
    assert ids(made) == [1, 2, 2, 3]
    table.delete("id = 2")  # rewrites files
    with table.update_schema() as update:
        update.rename_column("day", "date")
    assert [value for _, value in made.rows(True)] == [
        {"id": 3, "date": "2024-01-02"},
        {"id": 1, "date": "2024-01-02"},
    ]
    made.close()


def test_what_the_catalog_has_not_taken_is_not_read(tmp_path: Path) -> None:
    """Its writer was killed between the file of the version and the catalog."""
    append(tmp_path, 1)
    shutil.copy(tmp_path / "catalog.db", tmp_path / "before.db")
    append(tmp_path, 9)
    shutil.copy(tmp_path / "before.db", tmp_path / "catalog.db")
    assert ids(sink(tmp_path, "{state}/catalog.db")) == [1]
    assert ids(sink(tmp_path)) == [1, 9]  # nothing tells
    time.sleep(0.002)
    append(tmp_path, 2)  # the same number once more, later
    assert ids(sink(tmp_path)) == ids(sink(tmp_path, "{state}/catalog.db")) == [1, 2]


def test_a_version_that_is_half_written_is_none_yet(tmp_path: Path) -> None:
    append(tmp_path, 1)
    append(tmp_path, 2)
    newest(tmp_path).write_bytes(newest(tmp_path).read_bytes()[:-9])
    assert ids(sink(tmp_path)) == [1]
    made = sink(tmp_path, "{state}/catalog.db")  # which says that it is whole
    assert made.rows() == []
    with pytest.raises(BadOutput, match=r"\[outputs.priced\] metadata/00002-.*metadata.json: "):
        made.rows(ended=True)


def test_a_folder_may_be_its_own_catalog(tmp_path: Path) -> None:
    for number in (1, 2):
        append(tmp_path, number)
        newest(tmp_path).rename(tmp_path / f"out/metadata/v{number + 8}.metadata.json")
        (tmp_path / "catalog.db").unlink()
        for path in (tmp_path / "out/metadata").glob("0*.metadata.json"):
            path.unlink()
    assert ids(sink(tmp_path)) == [2]  # a table of its own each time; 10 is behind 9


def test_a_file_that_is_gone_elsewhere_or_a_link_is_told(tmp_path: Path) -> None:
    append(tmp_path, 1)
    (file,) = (tmp_path / "out").rglob("*.parquet")
    other = file.rename(tmp_path / "other.parquet")
    for said in ("No such file", "expected a plain file; found a link"):
        with pytest.raises(BadOutput, match=said):
            sink(tmp_path).rows(ended=True)
        assert sink(tmp_path).rows() == []
        if not file.is_symlink():
            file.symlink_to(other)
    text = newest(tmp_path).read_text()
    inner = f"file://{tmp_path}/out/metadata/snap-"
    for wrong in ("file:///etc/snap-", f"file://{tmp_path}/snap-", "s3://bucket/snap-"):
        newest(tmp_path).write_text(text.replace(inner, wrong))
        with pytest.raises(BadOutput, match=f"files in the folder of the table; got {wrong}"):
            sink(tmp_path).rows(ended=True)


def delete(table: Any, file: pa.Table, content: manifests.DataFileContent, name: str) -> None:
    """Add a delete file to the newest version of a table, as a writer of merge-on-read does."""
    snapshot = table.current_snapshot()
    (data,) = snapshot.manifests(table.io)
    (entry,) = data.fetch_manifest_entry(table.io)
    place = f"{table.location()}/data/{name}"
    pq.write_table(file, place.removeprefix("file://"))

    class OfDeletes(manifests.ManifestWriterV2):
        def content(self) -> manifests.ManifestContent:
            return manifests.ManifestContent.DELETES

    packed = ("deflate",)
    schema, spec = table.schema(), table.spec()
    output = table.io.new_output(f"{table.location()}/metadata/deletes.avro")
    with OfDeletes(spec, schema, output, snapshot.snapshot_id, *packed) as made:
        made.add(
            manifests.ManifestEntry.from_args(
                status=manifests.ManifestEntryStatus.ADDED,
                snapshot_id=snapshot.snapshot_id,
                data_file=manifests.DataFile.from_args(
                    content=content,
                    file_path=place,
                    file_format=FileFormat.PARQUET,
                    partition=entry.data_file.partition,
                    record_count=len(file),
                    file_size_in_bytes=Path(place.removeprefix("file://")).stat().st_size,
                ),
            )
        )
    deletes = made.to_manifest_file()
    Path(snapshot.manifest_list.removeprefix("file://")).unlink()
    output = table.io.new_output(snapshot.manifest_list)
    with manifests.write_manifest_list(2, output, snapshot.snapshot_id, None, 1, *packed) as lists:
        lists.add_manifests([data, deletes])


def test_rows_that_are_deleted_by_position_are_left_out(tmp_path: Path) -> None:
    table = append(tmp_path, 1, 2, 3)
    (data,) = table.current_snapshot().manifests(table.io)
    (entry,) = data.fetch_manifest_entry(table.io)
    gone = pa.table({"file_path": [entry.data_file.file_path], "pos": pa.array([1], pa.int64())})
    delete(table, gone, manifests.DataFileContent.POSITION_DELETES, "gone.parquet")
    assert ids(sink(tmp_path)) == [1, 3]


def test_deletes_by_value_are_refused(tmp_path: Path) -> None:
    table = append(tmp_path, 1, 2)
    gone = pa.table({"id": [2]})
    delete(table, gone, manifests.DataFileContent.EQUALITY_DELETES, "gone.parquet")
    with pytest.raises(BadOutput, match="does not yet support equality deletes"):
        sink(tmp_path).rows(ended=True)


def test_deletes_from_elsewhere_are_refused(tmp_path: Path) -> None:
    table = append(tmp_path, 1, 2)
    gone = pa.table({"file_path": ["x"], "pos": pa.array([1], pa.int64())})
    delete(table, gone, manifests.DataFileContent.POSITION_DELETES, "../../gone.parquet")
    with pytest.raises(BadOutput, match="expected a file within the folder"):
        sink(tmp_path).rows(ended=True)


def test_a_catalog_that_is_none_is_told(tmp_path: Path) -> None:
    append(tmp_path, 1)
    (tmp_path / "other.db").touch()
    assert sink(tmp_path, "{state}/other.db").rows(True) == []
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("CREATE TABLE other (n INT)")
    made = sink(tmp_path, "{state}/other.db")
    assert made.rows() == []
    with pytest.raises(BadOutput, match=r"other.db: .* no such table: iceberg_tables"):
        made.rows(ended=True)


def test_without_the_extra_the_command_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path, 1)
    monkeypatch.delattr(jobs, "iceberg", raising=False)
    monkeypatch.setitem(sys.modules, "tickproof.conformance.jobs.iceberg", None)
    with pytest.raises(BadOutput, match=r"needs: pip install 'tickproof\[iceberg\]'"):
        sink(tmp_path).rows()
