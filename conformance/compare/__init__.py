"""Sessions held against each other: verdicts that changed, figures that differ."""
