"""A session: an engine is taken through the tiers, runs are played, judged and reported."""
