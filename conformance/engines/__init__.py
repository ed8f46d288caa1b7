"""Engines under test: their engine.toml, their processes, what they say and how they end."""
