"""What of Spark is not public: no more is used than internals.py names, and all of it is there."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from pathlib import Path

import psutil
import pyspark
import pytest
from py4j.protocol import Py4JJavaError

from tickproof.reference import internals, session

ROOT = Path(__file__).parents[2]
MODULES = [
    path
    for folder in ("reference", "fixtures/engines/spark")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.name != "internals.py"
]
#: What the API reference of PySpark documents.
PUBLIC = {
    "pyspark", "pyspark.errors", "pyspark.sql", "pyspark.sql.datasource", "pyspark.sql.functions",
    "pyspark.sql.streaming", "pyspark.sql.streaming.datasource", "pyspark.sql.streaming.listener",
    "pyspark.sql.streaming.state", "pyspark.sql.types",
}  # fmt: skip
#: Settings that the guide of Structured Streaming documents, and ``SET -v`` does not list.
GUIDE = {
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
}
CHANGED = (
    f"Spark {pyspark.__version__} changed what reference/internals.py takes of it, which was tried "
    f"on {' and '.join(internals.TRIED)}: "
)


def private(tree: ast.Module) -> list[str]:
    """Return the private attributes that a module reads of other things than ``self``."""
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and re.match("_[^_]|__fields__", node.attr)
        and ast.unparse(node) != "os._exit"
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


def of_spark(tree: ast.Module) -> set[str]:
    """Return the modules of Spark, and of its bridge to the JVM, that a module imports."""
    named = {
        name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names
    } | {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name for name in named if name and name.split(".")[0] in ("pyspark", "py4j")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_module_uses_what_is_public(path):
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    assert private(tree) == []
    assert of_spark(tree) - PUBLIC == set()
    classes = set(re.findall(r"org\.apache\.[\w.]+", text))
    documented = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    assert classes - {documented} == set()


def test_a_private_name_would_be_found():
    tree = ast.parse((ROOT / "reference" / "internals.py").read_text("utf-8"))
    assert {*private(tree)} == {"spark.sparkContext._jsc", "spark.sparkContext._gateway"}
    assert of_spark(ast.parse("from pyspark.sql.pandas import types")) - PUBLIC


def test_the_oldest_spark_that_is_asked_for_was_tried():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["optional-dependencies"]["spark"]
    assert f"pyspark>={internals.TRIED[0].removesuffix('.0')},<5" in wanted


def test_settings(spark):
    public = {row.key for row in spark.sql("SET -v").collect()}
    hidden = {key for key in session.SETTINGS if key.startswith("spark.sql.")} - public - GUIDE
    assert hidden == internals.SETTINGS.keys(), (
        f"{CHANGED}settings that Spark does not list, beside those that it does not know"
    )
    fresh = spark.newSession()
    for key in hidden:
        assert spark.conf.get(key) == internals.SETTINGS[key]
        fresh.conf.unset(key)
        # One that Spark does not know is an error then.
        assert fresh.conf.get(key) is not None, f"{CHANGED}the setting {key}"


def test_what_writes_checkpoints_can_be_named(spark, tmp_path):
    (key,) = internals.LOCAL_CHECKPOINTS
    fresh = spark.newSession()
    fresh.conf.set(key, "nowhere")
    stream = fresh.readStream.format("rate").load().writeStream.format("noop")
    with pytest.raises(Exception, match="nowhere"):
        stream.start(checkpointLocation=str(tmp_path))
        pytest.fail(f"{CHANGED}the setting {key}")


def test_the_catalog_is_in_memory_unless_hive_is_asked_for(spark):
    assert spark.conf.get("spark.sql.catalogImplementation") == "in-memory"


def test_python_modules():
    missing = [name for name in internals.PYTHONS if not importlib.util.find_spec(name)]
    assert not missing, f"{CHANGED}Python modules are gone: {missing}"


def test_classes(spark):
    programs = internals.DRIVER, internals.EXECUTOR, internals.MASTER, internals.WORKER
    for name in (*programs, *internals.LOCAL_CHECKPOINTS.values()):
        try:
            spark._jvm.java.lang.Class.forName(name)
        except Py4JJavaError as error:
            pytest.fail(f"{CHANGED}there is no class {name}: {error}")
    command = psutil.Process(spark.sparkContext._gateway.proc.pid).cmdline()
    assert internals.DRIVER in command, f"{CHANGED}the driver's JVM runs another class: {command}"


def test_executors(spark):
    try:
        ids = internals.executors(spark)
    except Exception as error:
        pytest.fail(f"{CHANGED}executors cannot be named: {error}")
    assert ids == set(), f"{CHANGED}local[2] has a driver, and no executor but that"


def test_asking_for_executors(spark):
    try:
        internals.ask_for_executors(spark, 1)  # local[2] has no Master that could start one
    except Exception as error:
        pytest.fail(f"{CHANGED}executors cannot be asked for: {error}")


def test_the_gateway(spark):
    gateway = getattr(spark.sparkContext, "_gateway", None)
    assert callable(getattr(gateway, "shutdown", None)), f"{CHANGED}no gateway to shut down"
    assert gateway.proc.stdin.writable(), f"{CHANGED}the JVM of the driver has no input to close"
