"""Input streams for conformance runs: same seed, same bytes, on any machine."""

from tickproof.generators.partitions import BuiltInput, PartitionFile
from tickproof.generators.recipes import build

__all__ = ["BuiltInput", "PartitionFile", "build"]
