"""Spark's Python daemon, with the packages loaded before it forks its workers.

Each worker then starts in milliseconds and shares their memory with the others.
"""

import numpy  # noqa: F401
import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.daemon
import pyspark.worker  # noqa: F401

import reference.compiler.streaming  # noqa: F401

if __name__ == "__main__":
    pyspark.daemon.manager()
