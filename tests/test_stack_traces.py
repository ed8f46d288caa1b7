"""Stack traces keep their innermost frame and the error."""

from __future__ import annotations

import pytest

from tickproof.conformance.text import shortened

PYTHON = """\
worker 1:
Traceback (most recent call last):
  File "a.py", line 1, in main
    run(x)
    ~~~^^^
  File "b.py", line 2, in run
    raise ValueError(x)
ValueError: 5
bye"""
JAVA = """\
java.lang.IllegalStateException: no
\tat a.B.c(B.java:5)
\tat a.B.d(B.java:9)
\tat a.B.e(B.java:19)
\tat a.B.main(B.java:20)
Caused by: it"""


def test_a_python_trace_keeps_three_lines():
    assert shortened(PYTHON.splitlines()) == [
        "worker 1:",
        "Traceback (most recent call last):",
        "  ... 2 lines of the trace left out",
        '  File "b.py", line 2, in run',
        "    raise ValueError(x)",
        "ValueError: 5",
        "bye",
    ]


@pytest.mark.parametrize("tab", ["\t", "\\t"])
def test_a_java_trace_is_one_too(tab):
    found = shortened(JAVA.replace("\t", tab).splitlines())
    assert found[1] == "  ... 2 lines of the trace left out"
    assert len(found) == 5


@pytest.mark.parametrize("lines", [[], ["one", "two"], ["", "a", "", "b"], ["a", " b", " c", " d"]])
def test_other_text_stays_as_it_is(lines):
    assert shortened(lines) == lines
