"""Input streams for conformance runs: same seed, same bytes, on any machine."""

from generators.partitions import BuiltInput, PartitionFile
from generators.recipes import build

__all__ = ["BuiltInput", "PartitionFile", "build"]
