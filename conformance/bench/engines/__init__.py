"""`tickproof bench engines`: engines side by side, on inputs and machine that are the same."""
