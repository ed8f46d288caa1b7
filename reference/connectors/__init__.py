"""The log protocol as a streaming source and a transactional sink of Spark."""
