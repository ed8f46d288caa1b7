"""Defects that nobody thought of: every mutant that a tool makes of a sound engine is judged."""
