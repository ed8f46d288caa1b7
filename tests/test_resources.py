"""The fixtures are found in a checkout and in a wheel, or it is said that they are not."""

from __future__ import annotations

import pytest

from tickproof.conformance import resources


def test_a_checkout_has_them_beside_the_package():
    assert (resources.fixtures() / "engines").is_dir()


def test_a_wheel_has_them_beside_the_package_too(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "conformance")
    (tmp_path / "fixtures" / "engines").mkdir(parents=True)
    assert resources.fixtures() == tmp_path / "fixtures"


def test_an_installation_without_them_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "conformance")
    with pytest.raises(FileNotFoundError, match="no fixtures beside"):
        resources.fixtures()
