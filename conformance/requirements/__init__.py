"""The registry of requirements: what each promises, who is asked, which clauses it checks."""
