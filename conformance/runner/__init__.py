"""Plays one scenario on one engine into one run folder."""
