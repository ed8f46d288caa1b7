"""The arrows between packages, computed from the imports and held against the table in docs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KIT = "tickproof.conformance"
TABLE = ROOT / "docs" / "architecture.md"
#: Modules at the root of conformance/, without __init__.
MOST_AT_THE_ROOT = 7


def modules(folder: str) -> dict[str, Path]:
    """Return the modules below a folder of the repository, by the name they are imported by."""
    found = {}
    for path in (ROOT / folder).rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(("tickproof", *parts)).removesuffix(".__init__")] = path
    assert found, f"no modules in {folder}"
    return found


KNOWN = {name for top in ("conformance", "generators", "reference") for name in modules(top)}


@cache
def imports(path: Path) -> frozenset[str]:
    """Return every module that a file imports, dotted; a name of a module counts as its module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{path}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in KNOWN else node.module)
    return frozenset(found)


def package(module: str) -> str:
    """Return the package of the kit that a module lies in, or the module itself at the root."""
    return module.removeprefix(f"{KIT}.").partition(".")[0]


def between_packages() -> dict[str, set[str]]:
    """Return package -> packages that it imports."""
    arrows: dict[str, set[str]] = {}
    for name, path in modules("conformance").items():
        for other in imports(path):
            if other.startswith(f"{KIT}.") and package(other) != package(name):
                arrows.setdefault(package(name), set()).add(package(other))
    return arrows


def allowed() -> dict[str, set[str]]:
    """Read the table of docs/architecture.md: package -> packages that it may import."""
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|$", TABLE.read_text("utf-8"), re.MULTILINE)
    return {name: set(re.findall(r"\w+", row)) for name, row in rows}


def cycle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return one cycle of a graph, or nothing."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def at_the_root() -> set[str]:
    return {path.stem for path in (ROOT / "conformance").glob("*.py")} - {"__init__"}


def test_few_modules_lie_at_the_root() -> None:
    assert len(at_the_root()) <= MOST_AT_THE_ROOT


def test_a_cycle_is_found() -> None:
    assert cycle({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]})
    assert not cycle({"a": ["b", "c"], "b": ["c"]})


def test_no_cycle_between_packages() -> None:
    assert cycle(between_packages()) == []


def test_no_cycle_between_modules() -> None:
    kit = modules("conformance")
    assert cycle({name: imports(path) & kit.keys() - {name} for name, path in kit.items()}) == []


def test_imports_are_those_of_the_table() -> None:
    # Plain data may be imported by anyone, and is not in the table.
    found = {name: to - at_the_root() for name, to in between_packages().items()}
    assert {name: to for name, to in found.items() if name not in at_the_root() and to} == {
        name: to for name, to in allowed().items() if to
    }


def test_the_table_has_every_package() -> None:
    folders = {p.parent.name for p in (ROOT / "conformance").glob("*/__init__.py")}
    assert allowed().keys() == folders


def test_the_table_allows_no_cycle() -> None:
    assert cycle(allowed()) == []


def test_plain_data_imports_plain_data_only() -> None:
    root = at_the_root()
    assert {name: to - root for name, to in between_packages().items() if name in root} == {
        name: set() for name in between_packages() if name in root
    }


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def offenders(folder: str, *forbidden: str) -> list[tuple[str, str]]:
    return [
        (path.relative_to(ROOT).as_posix(), module)
        for path in modules(folder).values()
        for module in sorted(imports(path))
        if within(module, *forbidden)
    ]


def test_checkers_know_no_sockets_and_no_processes() -> None:
    found = offenders(
        "conformance/checkers",
        "socket",
        "subprocess",
        "multiprocessing",
        "threading",
        f"{KIT}.history.folder",
    )
    assert found == []


@pytest.mark.parametrize("top", ["conformance", "generators", "reference"])
def test_everything_is_imported_by_its_one_name(top: str) -> None:
    # `import conformance` works in a checkout alone, and would load a module a second time.
    folders = ("conformance", "generators", "reference", "fixtures", "tests")
    assert [one for folder in folders for one in offenders(folder, top)] == []


def test_engines_know_nothing_of_the_kit() -> None:
    assert offenders("fixtures/engines", KIT, "tickproof.generators", "tests") == []


def test_generators_and_reference_know_nothing_of_the_kit() -> None:
    assert offenders("generators", KIT, "tickproof.fixtures", "tickproof.reference", "tests") == []
    assert offenders("reference", KIT, "tickproof.fixtures", "tickproof.generators", "tests") == []


#: Of the kit, what starts a Java or tells a job of one.
JAVA = ("conformance/spark_check/", "conformance/kafka/", "conformance/jobs/")


def test_only_one_package_knows_spark_and_three_find_the_same_java() -> None:
    # `check --spark` uses Spark as a machine to judge on.
    found = offenders("conformance", "pyspark", "py4j", "tickproof.reference", "tests")
    assert [
        one
        for one in found
        if not (
            one[0].startswith(JAVA)
            if within(one[1], "tickproof.reference.java")
            else one[0].startswith("conformance/spark_check/")
            and not within(one[1], "tickproof.reference")
        )
    ] == []


def test_only_the_search_draws_with_hypothesis() -> None:
    found = offenders("conformance", "hypothesis")
    assert found
    assert [one for one in found if not one[0].startswith("conformance/explore/")] == []
