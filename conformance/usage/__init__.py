"""What a run used of its machine, and how the machine disturbed the run."""
