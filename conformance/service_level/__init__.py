"""Latency sessions: rounds on an attested host, until a profile is decided."""
