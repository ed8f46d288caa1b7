"""Applications from topics to a topic of Kafka, exactly once."""
