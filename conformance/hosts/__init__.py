"""The machine under a measurement: what it is, what would tune it, which cores are whose."""
