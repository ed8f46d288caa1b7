"""Input streams for conformance runs: same seed, same bytes, on any machine."""
