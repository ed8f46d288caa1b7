"""The input of a run made from its recipe, once the recipe is known to make no more than that."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.history.run_record import Input
from tickproof.generators import recipes
from tickproof.generators.layouts import COUNT_IN, MESSAGE, NUMBER
from tickproof.generators.partitions import BuiltInput

_SIZES: Final = {
    "numbers": NUMBER.itemsize, "keyed": COUNT_IN.itemsize, "market": MESSAGE.itemsize,
    "market-realistic": MESSAGE.itemsize,
}  # fmt: skip


def remade(given: Input, folder: Path) -> BuiltInput:
    """Make an input again; ``given``: what run.json says of it.

    Raises ValueError and OSError as `recipes.build` does; and ValueError, before anything is
    written, where the recipe makes another number of records, or records of another size, or
    reads what is no plain file of known content.
    """
    recipe = given.recipe
    try:
        wrong = belied(given)
        files = {key: str(recipe[key]) for key in ("path", "quotes", "orders") if key in recipe}
        unknown = [key for key in files if not recipe.get(f"{key}_sha256", recipe.get("sha256"))]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"run.json: expected the record of an input: {error!r}") from error
    if wrong:
        raise ValueError(f"run.json: input: {wrong}")
    if unknown:
        raise ValueError(f"run.json: input: expected the sha256 of {unknown[0]}, got none")
    for key, file in files.items():
        if not Path(file).is_file():
            raise ValueError(f"run.json: input: {key}: {file!r} is no plain file")
    return recipes.build(recipe, folder)


def belied(given: Input) -> str:
    """Say what of an input's partitions its recipe belies, "" where nothing does.

    Raises ValueError, TypeError, KeyError or AttributeError for a recipe of the wrong shape.
    """
    recipe, rows = given.recipe, given.partitions
    records, made = sum(row.records for row in rows), _recipe_records(recipe)
    if made not in (None, records):
        return f"expected a recipe of {records:,} records, got one of {made:,}"
    size = int(recipe["size"]) if recipe["kind"] == "payloads" else _SIZES.get(recipe["kind"])
    if size is not None and (others := {row.record_size for row in rows} - {size}):
        return f"expected records of {max(others):,} bytes, got a recipe of {size:,}"
    return ""


def _recipe_records(recipe: Mapping[str, Any]) -> int | None:
    """Return how many records a recipe makes, None where only its files can tell."""
    if recipe["kind"] == "script":
        return len(recipe["rows"]) * int(recipe["repeat"])
    return None if "records" not in recipe else int(recipe["records"])
