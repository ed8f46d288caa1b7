"""The jars of Spark's Kafka source, which pyspark has not got."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tickproof.reference import java


def brought(listed: Path) -> list[Path]:
    """Return the jars of a list, a TOML file with name and sha256, from a cache of this user's.

    An empty list where no folder has them all.
    """
    wanted = tomllib.loads(listed.read_text("utf-8"))
    for cache in java.own_caches():
        for folder in cache.glob(f"{wanted['name']}-*"):
            jars = [folder / name for name in wanted["sha256"]]
            if all(jar.is_file() for jar in jars):
                return jars
    return []
