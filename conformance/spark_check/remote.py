"""A run folder in a file system of Hadoop: file:, hdfs:, s3a:, whatever Spark was given.

The driver copies all of it but the partitions of the input, which may be larger than its disk.
Executors read input and output where they are.
"""

from __future__ import annotations

import pickle
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.text import shown

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

_PARTITION: Final = re.compile(r"input/s.*")
_FORMAT: Final = "org.apache.spark.input.FixedLengthBinaryInputFormat"
_SPLIT: Final = "mapreduce.input.fileinputformat.split"
#: Bytes that the JVM reads at once.
_CHUNK_BYTES: Final = 1 << 20
#: Takes the number of the first record of a slice, and its records.
Look = Callable[[int, np.ndarray], Iterator[pa.RecordBatch]]


class RemoteRun:
    """A run folder by its URI; ``sizes``: bytes of its files, by name.

    Raises HistoryError if it is no run folder, or cannot be read.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.uri, self._spark = uri.rstrip("/"), spark
        try:
            self._system = _path(spark, uri).getFileSystem(spark._jsc.hadoopConfiguration())
            self.sizes = dict(self._listed("")) | dict(self._listed("input/"))
            self.sizes |= dict(self._listed("output/"))
        except Py4JJavaError as error:
            raise HistoryError(f"{uri}: cannot be read: {_said(error)}") from error
        if "run.json" not in self.sizes:
            raise HistoryError(f"{uri}/run.json: not found; expected the folder of an engine's run")

    def _listed(self, inner: str) -> Iterator[tuple[str, int]]:
        folder = _path(self._spark, self.at(inner))
        for status in self._system.listStatus(folder) if self._system.exists(folder) else ():
            if status.isFile():
                yield inner + status.getPath().getName(), int(status.getLen())

    @property
    def partitions(self) -> list[str]:
        """Names of the partitions of the input that are there."""
        return [name for name in self.sizes if _PARTITION.fullmatch(name)]

    def at(self, name: str) -> str:
        """Return the URI of a file."""
        return f"{self.uri}/{name}"

    def copy(self, names: Iterable[str], folder: Path) -> None:
        """Copy files to a folder of the driver; raises HistoryError."""
        for name in names:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._system.copyToLocalFile(
                    False,
                    _path(self._spark, self.at(name)),
                    _path(self._spark, target.as_uri()),
                    True,
                )
            except Py4JJavaError as error:
                raise HistoryError(f"{self.at(name)}: cannot be copied: {_said(error)}") from error

    def copy_all(self, folder: Path) -> None:
        """Copy all files but the partitions of the input; raises HistoryError."""
        self.copy(self.sizes.keys() - set(self.partitions), folder)

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of each partition of the input; the JVM of the driver reads them."""
        names = self.partitions
        with ThreadPoolExecutor(self._spark.sparkContext.defaultParallelism) as pool:
            return dict(zip(names, pool.map(self._digest, names), strict=True))

    def _digest(self, name: str) -> str:
        jvm: Any = self._spark._jvm
        digest = jvm.java.security.MessageDigest.getInstance("SHA-256")
        try:
            stream = self._system.open(_path(self._spark, self.at(name)))
            read = jvm.java.security.DigestInputStream(stream, digest)
            nowhere = jvm.java.io.OutputStream.nullOutputStream()
            jvm.org.apache.hadoop.io.IOUtils.copyBytes(read, nowhere, _CHUNK_BYTES, True)
        except Py4JJavaError as error:
            raise HistoryError(f"{self.at(name)}: cannot be read: {_said(error)}") from error
        return bytes(digest.digest()).hex()


def _path(spark: SparkSession, uri: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(uri)


def _said(error: Py4JJavaError) -> str:
    """Return what an exception of Java says, in one line."""
    cause = error.java_exception
    return shown(str(cause.toString()).splitlines()[0], 300)


def over_slices(
    spark: SparkSession,
    uri: str,
    layout: np.dtype,
    records: int,
    look: Look,
    slice_bytes: int,
    schema: str,
) -> DataFrame:
    """Return what ``look`` yields for each slice of a file of ``records`` of a layout.

    Of Spark's ways to read bytes, `binaryFile` gives a file whole, of 2 GB at most, and
    `binaryRecords` an object of Python a record; this is the format of the latter, with chunks of
    a megabyte as records. It fails at a part of a chunk, so the driver reads what is behind the
    last whole slice.
    """
    in_chunk = max(1, min(_CHUNK_BYTES, slice_bytes) // layout.itemsize)
    chunk = in_chunk * layout.itemsize
    step = max(1, slice_bytes // chunk) * chunk

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take the pickled (number, bytes) of each chunk of a slice."""
        values = [value.as_py() for batch in batches for value in batch.column(0)]
        found = [one for value in values for one in pickle.loads(value)]
        if found:
            start, data = found[0][0] * in_chunk, b"".join(data for _, data in found)
            count = min(len(data) // layout.itemsize, records - start)
            yield from look(start, np.frombuffer(data, layout, count))

    whole, last = None, 0
    if records * layout.itemsize >= step:
        chunks = spark.sparkContext.newAPIHadoopFile(
            uri,
            _FORMAT,
            "org.apache.hadoop.io.LongWritable",
            "org.apache.hadoop.io.BytesWritable",
            conf={
                f"{_FORMAT}.recordLength": str(chunk),
                f"{_SPLIT}.minsize": str(step),
                f"{_SPLIT}.maxsize": str(step),
            },
            batchSize=1,
        )
        last = chunks.getNumPartitions() - 1
        whole = _partitions(spark, chunks, last)
    rest = [(last * step // chunk, _rest(spark, uri, last * step))]
    tail = spark.createDataFrame([(pickle.dumps(rest),)], "value binary").coalesce(1)
    return (whole.unionAll(tail) if whole else tail).mapInArrow(run, schema)


def _partitions(spark: SparkSession, chunks: RDD[Any], count: int) -> DataFrame:
    """Return the first partitions of what `newAPIHadoopFile` gave, pickled, as a column."""
    jvm: Any = spark._jvm
    numbers = jvm.PythonUtils.toSeq(list(range(count))).toSet()  # in Scala also a predicate
    pruned = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(chunks._jrdd.rdd(), numbers)
    binary = jvm.org.apache.spark.sql.Encoders.BINARY()
    return DataFrame(spark._jsparkSession.createDataset(pruned, binary).toDF(), spark)


def _rest(spark: SparkSession, uri: str, position: int) -> bytes:
    """Return the bytes of a file from a position on; raises HistoryError."""
    jvm: Any = spark._jvm
    none = spark.sparkContext._gateway.new_array(jvm.java.nio.file.CopyOption, 0)
    with tempfile.TemporaryDirectory(prefix="tickproof-") as folder:
        copy = Path(folder) / "rest"
        try:
            path = _path(spark, uri)
            stream = path.getFileSystem(spark._jsc.hadoopConfiguration()).open(path)
            try:
                stream.seek(position)
                jvm.java.nio.file.Files.copy(stream, jvm.java.io.File(str(copy)).toPath(), none)
            finally:
                stream.close()
        except Py4JJavaError as error:
            raise HistoryError(f"{uri}: cannot be read: {_said(error)}") from error
        return copy.read_bytes()
