"""Search for a schedule of faults that an engine does not survive, and shrink it."""
