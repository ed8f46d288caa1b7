"""The session of the reference: which master it is started on."""

from __future__ import annotations

import pytest

from tickproof.reference import session


class Builder:
    """Notes what a session would be made of."""

    def __init__(self):
        self.masters, self.settings = [], {}

    def appName(self, _name):
        return self

    def master(self, url):
        self.masters.append(url)
        return self

    def config(self, key, value):
        self.settings[key] = value
        return self

    def getOrCreate(self):
        return self


@pytest.mark.parametrize("master", [None, "spark://127.0.0.1:7077"])
def test_the_master_is_the_one_given_or_that_of_spark_submit(monkeypatch, master):
    monkeypatch.setattr(session.SparkSession, "builder", Builder())
    made = session.start(master, {"spark.locality.wait": "1"})
    assert made.masters == ([master] if master else [])
    assert made.settings["spark.locality.wait"] == "1"
