"""Recorded runs on disk: found, tagged, removed."""
