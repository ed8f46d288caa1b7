"""Checkers: pure functions from recorded arrays to findings. No sockets, no processes."""
