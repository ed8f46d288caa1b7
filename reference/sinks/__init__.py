"""Sinks that write each batch once, whatever runs it again."""
