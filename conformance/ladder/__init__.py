"""`tickproof ladder`: what each small feature of an engine costs a record."""
