"""Probes of a host, by level. Each reads one setting and says what it should be."""
