"""Text from an engine cannot steer a terminal, and is never longer than asked."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.text import shown


@given(st.text(st.characters()), st.integers(1, 60))
def test_it_is_printable_and_bounded(text, limit):
    got = shown(text, limit)
    assert got.isprintable()
    assert len(got) <= limit
    if text.isprintable() and len(text) <= limit:
        assert got == text


def test_it_shows_what_was_there():
    assert shown("\x1b[31mred\x1b[0m\n", 80) == r"\x1b[31mred\x1b[0m\n"
    assert shown("a\u202eb\ud800\x9b", 80) == r"a\u202eb\ud800\x9b"
    assert shown("äöü €", 80) == "äöü €"


def test_it_marks_the_cut_and_never_halves_an_escape():
    assert shown("abcdef", 6) == "abcdef"
    assert shown("abcdefg", 6) == "abcde…"
    assert shown("abc\x1b\x1b", 8) == "abc\\x1b…"
    assert shown("abc\x1b\x1b", 7) == "abc…"
