"""From a pipeline to Structured Streaming, and to batch."""
