"""The fast form: a pipeline to Structured Streaming, rows that are blocks of records."""
