"""A page, and metrics, that follow a session while it goes on."""
