"""Input recipes: a small JSON object in, partition files and a publication plan out.

Beside kind, every recipe has tick = 256, partitions = 1, partitioner = "splitmix64"; empty = [],
ended_early = [], begin_late = [], ended_stream = null, skew = 0, secret = "".

| kind | keys |
|---|---|
| payloads | seed, records, size |
| numbers | seed, records; edges = false |
| keyed | seed, records; the rest as in KeyedParams |
| market | seed, records; inputs = "merged"; the rest as in MarketParams |
| market-realistic | seed, records; inputs = "merged"; the rest as in RealisticParams |
| market-csv | quotes, orders; inputs = "merged", quotes_sha256, orders_sha256, as in Reading |
| keyed-csv | path; sha256 |
| script | rows; repeat = 1, inputs = "merged", price_decimals = null |

Every kind takes a seed and a secret, so that callers need not tell them apart; input that is
given, not made (csv, script), does not depend on them. secret: up to 32 hexadecimal digits.
Without it the seed gives all bytes; with it, whoever knows the seed and a part of the input
cannot compute the rest. partitioner, empty, ended_early, begin_late, ended_stream and skew say how
records fall into partitions, as in Placement: with a partitioner of Kafka's clients they choose
keys, which input that is given does not allow. The same recipe gives the same bytes.
What ``build`` returns as recipe has every default filled in. Of files it also has the hashes:
built again from that, another file under the same name is an error. Of a recorded market it
has price_decimals, the decimal places of its unit of price.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof.generators.files import Progress
from tickproof.generators.layouts import MESSAGE, framed
from tickproof.generators.market import Market, MarketParams
from tickproof.generators.numbers import Keyed, KeyedParams, Numbers, Payloads, chunk_records
from tickproof.generators.partitioner import symbols
from tickproof.generators.partitions import BuiltInput, Chunk, Source, split
from tickproof.generators.placement import NUMBERING, OWN, Placement
from tickproof.generators.realistic import RealisticParams, all_names, make
from tickproof.generators.symbols import tickers, words

REQUIRED: Final = object()
INPUTS: Final = ("merged", "two")
_PLACED: Final = {
    "partitions": 1, "partitioner": OWN, "empty": (), "ended_early": (), "begin_late": (),
    "ended_stream": None, "skew": 0
}  # fmt: skip
_COMMON: Final = {"kind": REQUIRED, "tick": 256, "secret": ""} | _PLACED
_MADE: Final = _COMMON | {"seed": REQUIRED, "records": REQUIRED}
_GIVEN: Final = _COMMON | {"seed": 0}


def _defaults(params: type) -> dict[str, Any]:
    """Return the optional fields of a parameters class with their defaults."""
    made = {"seed", "messages", "records"}
    return {f.name: f.default for f in fields(params) if f.name not in made}


#: Keys of each kind with their defaults.
KEYS: Final[dict[str, dict[str, Any]]] = {
    "payloads": _MADE | {"size": REQUIRED},
    "numbers": _MADE | {"edges": False},
    "keyed": _MADE | _defaults(KeyedParams),
    "market": _MADE | _defaults(MarketParams) | {"inputs": "merged", "price_decimals": None},
    "market-realistic": _MADE | _defaults(RealisticParams) | {"inputs": "merged"},
    "market-csv": _GIVEN
    | {"quotes": REQUIRED, "orders": REQUIRED, "inputs": "merged", "strict": False}
    | {"quotes_sha256": None, "orders_sha256": None}
    | {"missing_side": None, "ties": "quote-first", "price_decimals": None},
    "keyed-csv": _GIVEN | {"path": REQUIRED, "sha256": None},
    "script": _GIVEN | {"rows": REQUIRED, "repeat": 1, "inputs": "merged", "price_decimals": None},
}
#: Kinds whose keys cannot be chosen.
_OWN_KEYS: Final = (
    "market-realistic",
    *(kind for kind, keys in KEYS.items() if keys["seed"] is not REQUIRED),
)


def complete(recipe: dict[str, Any]) -> dict[str, Any]:
    """Return the recipe with every default filled in; ValueError names a wrong key."""
    kind = recipe.get("kind")
    if kind not in KEYS:
        raise ValueError(f"recipe: kind: expected one of {', '.join(KEYS)}; got {kind!r}")
    keys = KEYS[kind]
    for key in recipe:
        if key not in keys:
            raise ValueError(
                f"recipe: unknown key {key!r} for kind {kind!r}; expected {', '.join(keys)}"
            )
    full = keys | recipe
    for key, value in full.items():
        if value is REQUIRED:
            raise ValueError(f"recipe: missing key {key!r} for kind {kind!r}")
    limits = {"partitions": (1, 4096), "tick": (1, 2**40), "records": (0, 2**32)}
    limits |= {"repeat": (1, 2**32), "seed": (0, 2**64 - 1)}
    for key, (low, high) in limits.items():
        value = full.get(key, low)
        if type(value) is not int or not low <= value <= high:
            raise ValueError(
                f"recipe: {key}: expected a whole number {low} to {high}, got {value!r}"
            )
    secret = full["secret"]
    if type(secret) is not str or not re.fullmatch("[0-9a-f]{0,32}", secret):
        raise ValueError(f"recipe: secret: expected up to 32 hexadecimal digits, got {secret!r}")
    if full.get("inputs", "merged") not in INPUTS:
        raise ValueError(f"recipe: inputs: expected merged or two, got {full['inputs']!r}")
    chooses = Placement.of(full).chooses_keys
    if full["ended_stream"] is not None and full.get("inputs") != "two":
        raise ValueError(
            f"recipe: ended_stream: expected none without two inputs, got {full['ended_stream']!r}"
        )
    if chooses and (kind in _OWN_KEYS or full.get("probe_one_in")):
        wishes = next(key for key in ("empty", "ended_early", "skew") if full[key])
        raise ValueError(
            f"recipe: {wishes}: expected keys that can be chosen, as the partitioner "
            f"{full['partitioner']} goes by the key; kind {kind!r} has its own"
        )
    # As JSON has them, however they were given.
    return full | {key: list(full[key]) for key in NUMBERING}


def secret_of(text: str) -> str:
    """Return a secret as recipes have it; ValueError if it is not 1 to 32 hexadecimal digits."""
    if not re.fullmatch("[0-9a-fA-F]{1,32}", text):
        raise ValueError(f"expected 1 to 32 hexadecimal digits, got {text[:60]!r}")
    return text.lower()


def build(recipe: dict[str, Any], folder: Path, progress: Progress | None = None) -> BuiltInput:
    """Write ``folder/s{stream}p{partition}.log`` as the recipe says.

    ``progress(records)`` is called after each chunk with the number done so far.
    Raises ValueError for a wrong recipe (naming the key) and CsvError for wrong data.
    """
    source, full = source_of(recipe)
    return split(source, full, folder, progress)


def source_of(recipe: dict[str, Any]) -> tuple[Source, dict[str, Any]]:
    """Return what a recipe makes, and the complete recipe; raises as ``build`` does."""
    full = complete(recipe)
    source = _SOURCES[full["kind"]](full)
    return source, full | source.recipe


def _numbers(recipe: dict[str, Any]) -> Source:
    return _unkeyed(Numbers(_whole_seed(recipe), recipe["edges"]), recipe["records"])


def _payloads(recipe: dict[str, Any]) -> Source:
    return _unkeyed(Payloads(_whole_seed(recipe), recipe["size"]), recipe["records"])


def _unkeyed(numbers: Numbers | Payloads, records: int) -> Source:
    return Source(
        records, (numbers.dtype,), lambda start, stop: Chunk(numbers.records(start, stop))
    )


def _keyed(recipe: dict[str, Any]) -> Source:
    params, placement = KeyedParams(**_subset(recipe, KeyedParams)), Placement.of(recipe)
    keyed = Keyed(params)
    if placement.chooses_keys:
        keyed.numbers = placement.choose(
            params.keys, lambda numbers: placement.of_keys(keyed.keys(numbers))
        )

    def chunk(start: int, stop: int) -> Chunk:
        records = keyed.records(start, stop)
        return Chunk(records, keys=records["payload"]["key"])

    return Source(recipe["records"], (keyed.dtype,), chunk)


def market_params(recipe: dict[str, Any]) -> MarketParams:
    """Return the parameters of a complete recipe of kind market."""
    return MarketParams(messages=recipe["records"], **_subset(recipe, MarketParams))


def market_symbols(recipe: dict[str, Any]) -> tuple[int, list[str]]:
    """Return the seed and the symbols of a complete recipe of a generated market."""
    if recipe["kind"] == "market-realistic":
        realistic = RealisticParams(**_subset(recipe, RealisticParams))
        return realistic.seed, all_names(realistic)
    params = market_params(recipe)
    return params.seed, tickers(params.seed, params.symbols, params.edges)


def _market(recipe: dict[str, Any]) -> Source:
    params = market_params(recipe)
    two = recipe["inputs"] == "two"
    market = Market(params, _chosen_symbols(params, Placement.of(recipe)))
    out = np.empty(chunk_records(framed(MESSAGE).itemsize), framed(MESSAGE))

    def chunk(start: int, stop: int) -> Chunk:
        return Chunk.of_market(market.messages(start, stop, out), two)

    return Source(params.messages, (framed(MESSAGE),) * (1 + two), chunk)


def _market_realistic(recipe: dict[str, Any]) -> Source:
    market = make(RealisticParams(**_subset(recipe, RealisticParams)))
    return market.source(two=recipe["inputs"] == "two")


def _chosen_symbols(params: MarketParams, placement: Placement) -> list[str] | None:
    """Return the symbols of a market whose keys have to be chosen; None: it has the usual ones."""
    if not placement.chooses_keys:
        return None
    names: list[str] = []

    def partition(numbers: np.ndarray) -> np.ndarray:
        names[:] = tickers(params.seed, int(numbers[-1]) + 1, params.edges)
        return placement.of_keys(words(names)[numbers], symbols)

    chosen = placement.choose(params.symbols, partition)
    return [names[number] for number in chosen.tolist()]


def _whole_seed(recipe: dict[str, Any]) -> int:
    """Return what all bits of made records are drawn from: the seed, above it the secret."""
    return int(recipe["seed"]) | int(recipe.get("secret") or "0", 16) << 64


def _subset(recipe: dict[str, Any], params: type) -> dict[str, Any]:
    given = {f.name: recipe[f.name] for f in fields(params) if f.name in recipe}
    return given | {"seed": _whole_seed(recipe)}


def _script(recipe: dict[str, Any]) -> Source:
    from tickproof.generators.script import script_source

    return script_source(recipe["rows"], recipe["repeat"], recipe["inputs"] == "two")


def _market_csv(recipe: dict[str, Any]) -> Source:
    # pyarrow takes 0.2 s and 50 MB: only for those who bring a CSV.
    from tickproof.generators.csv_market import csv_source

    return csv_source(recipe)


def _keyed_csv(recipe: dict[str, Any]) -> Source:
    from tickproof.generators.csv_keyed import csv_source

    return csv_source(recipe)


_SOURCES: Final[dict[str, Callable[[dict[str, Any]], Source]]] = {
    "payloads": _payloads,
    "numbers": _numbers,
    "keyed": _keyed,
    "market": _market,
    "market-realistic": _market_realistic,
    "market-csv": _market_csv,
    "keyed-csv": _keyed_csv,
    "script": _script,
}
