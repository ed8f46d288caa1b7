"""Latency as a service level: open loop, honest tails, a verdict with statistics."""
