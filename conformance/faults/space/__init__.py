"""The space of faults and inputs: its dimensions, what excludes what, and how it is covered."""
