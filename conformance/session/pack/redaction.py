"""Redacts whatever identifies a machine in a run's text: paths, tokens, secrets, names.

Works on the text of the files as it is, so that a JSON line stays a JSON line. A path may
be escaped there, once in JSON or twice in JSON within JSON.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.history.provenance import provenance

#: Environment variables whose values are secrets, by their names.
_SECRET: Final = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY", re.I)
#: A value assigned to such a name, the way a shell or a program prints its environment.
_GIVEN: Final = re.compile(
    r"\b([A-Z0-9_]*(?:TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|API_?KEY|ACCESS_?KEY)[A-Z0-9_]*"
    r"""(?:=|\\*['"]\s*[:,]\s*\\*['"]))(?!\{)[^\s"',;\\}]+"""
)
#: Shorter values are too likely to be ordinary words.
_SECRET_LENGTH: Final = 8
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
#: Accounts and hosts that every machine has: they identify nobody.
_NOBODY: Final = frozenset(("root", "localhost"))
#: An escaped line feed, carriage return or tab ends in a letter that starts no word.
_AFTER_ESCAPE: Final = r"(?<=\\[nrt])"
_WHOLE_WORD: Final = (rf"(?:(?<![A-Za-z0-9])|{_AFTER_ESCAPE})", r"(?![A-Za-z0-9])")
#: What a part of a path may hold; the escapes are those of JSON.
_PART: Final = r"(?:[\w.@+~%=,-]|\\+u[0-9a-f]{4})+"
#: An absolute path of two parts or more that no known folder explains; not that of a URL.
_PATH: Final = re.compile(rf"(?:(?<![\w}}.~-])|{_AFTER_ESCAPE})(?<!:/)/(?:{_PART}/+)+({_PART})?")


class Redactor:
    """Replaces whatever identifies a machine by words in braces such as {home}.

    made_at: `provenance` of the recording, empty if unknown; those of this process count
    too. folders: more folders by their word, the innermost first. tokens: those of the
    run's log servers. spoken: what the run itself says. A user or host named like a word of
    it ("worker") stays: it names nobody, and the run must go on to say the same.
    """

    def __init__(
        self,
        made_at: Mapping[str, Any],
        folders: Iterable[tuple[str, str]],
        tokens: Iterable[str],
        spoken: str,
    ) -> None:
        places = [place for place in (made_at, provenance()) if place]
        secrets = dict(_secrets()) | dict.fromkeys(tokens, "{token}")
        known: dict[str, str] = {}
        for word, folder in [*folders, *_folders(places)]:
            folder = folder.rstrip("/")
            if folder.count("/") > 1 or (word == "home" and folder):
                known.setdefault(folder, f"{{{word}}}")
        self._secrets = _Words(secrets)
        self._folders = _Words(known, after=r"(?![\w-])")
        said = {word.lower() for word in _WORD.findall(_PATH.sub("", self._folders(spoken)))}
        self._names = _Words(_names(places, said | _NOBODY), *_WHOLE_WORD)
        #: What certainly identifies the machine: searched for in files that stay as they are.
        self.telling: dict[str, str] = secrets | known

    def __call__(self, text: str) -> str:
        """Return the text, redacted."""
        text = self._folders(_GIVEN.sub(r"\1{secret}", self._secrets(text)))
        return self._names(_PATH.sub(_file_only, text))


def _file_only(path: re.Match[str]) -> str:
    """Return what is left of a path: the name of a file, not that of a folder."""
    name = path[1] or ""
    return f"{{path}}/{name}" if "." in name.strip(".") else "{path}"


class _Words:
    """Texts and the word that stands for each, also where JSON escaped them."""

    def __init__(self, words: Mapping[str, str], before: str = "", after: str = "") -> None:
        self._words = {form: word for text, word in words.items() for form in _forms(text)}
        longest_first = sorted(self._words, key=len, reverse=True)
        self._pattern = re.compile(f"{before}(?:{'|'.join(map(re.escape, longest_first))}){after}")

    def __call__(self, text: str) -> str:
        if not self._words:
            return text
        return self._pattern.sub(lambda match: self._words[match[0]], text)


def _forms(text: str) -> set[str]:
    """Return a text as it is, and as it stands in JSON, and in JSON within JSON."""
    forms = {text}
    for _ in range(2):
        forms |= {json.dumps(form, ensure_ascii=a)[1:-1] for form in forms for a in (True, False)}
    return forms


def _folders(places: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for place in places:
        if place["engine"]:
            yield "engine", str(Path(place["engine"]).parent)
        yield from place["folders"].items()


def _names(places: Iterable[Mapping[str, Any]], ordinary: Set[str]) -> dict[str, str]:
    """Return users, hosts and addresses with their words; no name of ordinary words."""
    found: dict[str, str] = {}
    for place in places:
        for host in (place["host"], place["host"].partition(".")[0]):
            found[host] = "{host}"
        found[place["user"]] = "{user}"
    found = {
        name: word
        for name, word in found.items()
        if len(name) > 1 and not set(_WORD.findall(name.lower())) <= ordinary
    }
    addresses = {address for place in places for address in place["addresses"]}
    return found | dict.fromkeys(addresses, "{address}")


def _secrets() -> Iterator[tuple[str, str]]:
    """Return secrets of the environment, each with its variable's name in braces."""
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= _SECRET_LENGTH:
            yield value, f"{{{name}}}"
