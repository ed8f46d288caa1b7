"""The reference engine on Spark: exactly-once counting and Market Spread in PySpark."""
