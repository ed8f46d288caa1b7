"""Tickproof: does a stream-processing engine count every message exactly once?"""

__version__ = "0.1.0"
