"""Benchmarks: the kit itself, and engines side by side."""
