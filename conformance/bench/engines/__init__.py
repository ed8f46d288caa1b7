"""`tickproof bench engines`: engines side by side, on the same inputs and machine."""
