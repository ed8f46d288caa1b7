"""Measurements of engines and the kit: bench, ladder of costs, latency, comparison."""
