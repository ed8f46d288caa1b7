"""A user's own job under faults: job.toml, one run of it, and what its output is held to."""
