"""Several engines judged with several seeds, and a table of what they kept of their promises."""
