"""What a run cost its machine, and what the machine did to the run."""
