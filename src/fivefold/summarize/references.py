"""References in text: the paths, names, commands, numbers, hex ids, flags, error texts and quoted strings by which later work
points back to earlier (spec B2).

A text is cut into raw tokens in C (``str.translate`` and ``split``); each distinct raw token of a conversation is looked at
once and remembered, so that indexing costs little more than the splitting. Where in its text a reference stands is found
only for the few that are asked for (``find``).
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["path", "name", "command", "number", "hex", "error", "quoted", "flag", "word"]

MOST_CHARS = 120
"""Longer tokens are data, not references."""
NUMBER_CHARS = 5
"""A bare whole number has at least so many digits to be a reference."""
SCRIPT_CHARS = 2_000
"""So much of a call's input is looked at for commands."""

_FINDS = 20
"""So many places are looked at for one where a reference stands as a whole."""
_INSIDE = frozenset("_./-@~+#")
_SEPARATORS = {code: " " for code in range(128) if not chr(code).isalnum() and chr(code) not in _INSIDE}
_PATH = re.compile(r"[~.]{0,2}/?(?:[\w.@+#~-]+/)*[\w.@+#~-]+")
_FILE = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}")
_HEX = re.compile(r"(?:[0-9a-f]{7,64}|[0-9A-F]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_NUMBER = re.compile(r"v?\d[\d.-]*\d")
_QUOTED = tuple(
    re.compile(pattern)
    for pattern in (
        r'"(?<![\w\\]")([^"\n\\]{6,80})"(?!\w)',
        r"'(?<!\w')([^'\n\\]{6,80})'(?!\w)",
        r"`([^`\n]{6,80})`",
        "“([^“”\n]{2,80})”",
        "「([^「」\n]{2,80})」",
    )
)
_QUOTES = ('"', "'", "`", "“", "「")
_ERRORS = re.compile(r"(?:rror|xception|RROR|anic|atal|AILED)(?:\[\w+\])?: ([^\n]{8,100})")
_ERROR_WORDS = ("rror", "xception", "RROR", "anic: ", "atal: ", "AILED")
_FOREIGN = re.compile(r"[^\W\x00-\x7f]+")
_MIXED = re.compile(r"[\w./@~+#-]+")
_COMMAND = re.compile(r"(?:^|&&|\|\|?|;|\n)\s*(?:sudo |time )?([a-z][\w.-]*) ([a-z][\w:-]+)")
_CODE_SUFFIXES = frozenset(
    re.findall(
        r"\w+",
        "py pyi js jsx ts tsx mjs cjs go rs c h cc cpp hpp java kt swift rb php cs sh bash zsh ps1 sql json jsonl yaml yml toml ini cfg"
        " md mdx rst txt html css scss vue svelte xml csv tsv lock mod sum env log proto tf gradle zip gz tar png jpg svg pdf diff patch "
        "ipynb",
    )
)
_NO_SPACES = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]+")
_LETTERS = re.compile(r"[^\W\d_]{4,}")


class Extractor:
    """Finds the references of texts of one conversation. ``words``: plain words that look like names count too, for
    conversations without code."""

    def __init__(self, *, words: bool = False) -> None:
        self.kinds: dict[str, Kind] = {}
        """The kind of each reference found so far."""
        self.words = words
        self._known = _Known(self)
        self._texts: dict[str, frozenset[str]] = {}
        self._scripts: dict[str, frozenset[str]] = {}

    def of(self, text: str) -> frozenset[str]:
        """All references in a text; a text is looked at once."""
        found = self._texts.get(text)
        if found is None:
            found = self._texts[text] = frozenset(self.once(text))
        return found

    def of_call(self, text: str) -> frozenset[str]:
        """All references in the input of a call, the two-word commands of a script (``git rebase``) among them."""
        found = self._scripts.get(text)
        if found is None:
            commands = {self._note(f"{first} {second}", "command") for first, second in _COMMAND.findall(text[:SCRIPT_CHARS])}
            found = self._scripts[text] = frozenset(self.once(text) | commands)
        return found

    def once(self, text: str) -> set[str]:
        """The same, of a text that is not to be remembered."""
        raw = set(text.translate(_SEPARATORS).split()) if text.isascii() else self._split_any(text)
        found = set().union(*map(self._known.__getitem__, raw))
        self._add_quoted(text, found)
        if any(word in text for word in _ERROR_WORDS):
            found.update(self._note(match.strip(), "error") for match in _ERRORS.findall(text))
        return found

    def _split_any(self, text: str) -> set[str]:
        plain = text.encode("ascii", "replace").decode("ascii")
        raw = set(plain.translate(_SEPARATORS).split())
        if self.words or _is_foreign(text):
            raw.update(_MIXED.findall(text))
        return raw

    def _add_quoted(self, text: str, found: set[str]) -> None:
        for quote, pattern in zip(_QUOTES, _QUOTED, strict=True):
            if quote in text:
                for match in pattern.findall(text):
                    if " " in match or not match.isascii():
                        found.add(self._note(match.strip(), "quoted"))

    def _note(self, reference: str, kind: Kind) -> str:
        self.kinds.setdefault(reference, kind)
        return reference

    def classify(self, raw: str) -> tuple[str, ...]:
        """The references that a raw token holds: none, one, or a dotted name and its parts."""
        if raw.isalpha() and (raw.islower() or raw.istitle() or raw.isupper()):
            return self._word(raw) if self.words else ()
        if not raw.isascii() and _NO_SPACES.search(raw):
            return self._word(raw)
        if len(raw) < 3 or len(raw) > MOST_CHARS:
            return ()
        if raw.startswith("--") and len(raw) > 4 and raw[2].isalpha():
            return (self._note(raw.rstrip("-./"), "flag"),)
        token = raw.rstrip("./-+#@~").lstrip("+#-")
        if token.startswith("//"):
            token = token.lstrip("/")
        return self._shaped(token) if len(token) > 2 else ()

    def _shaped(self, token: str) -> tuple[str, ...]:
        if "/" in token:
            good = len(token) > 5 and token.upper() != token.lower() and _PATH.fullmatch(token)
            return (self._note(token, "path"),) if good else ()
        if token.isalpha():
            simple = token.islower() or token.istitle() or token.isupper()
            return self._word(token) if simple else (self._note(token, "name"),)
        if (token[0].isdigit() or token[0] == "v") and _NUMBER.fullmatch(token):
            if len(token) < NUMBER_CHARS and token.isdigit():
                return ()  # numbers of lines, counts
            return (self._note(token, "number"),)
        if len(token) > 6 and _HEX.fullmatch(token):
            return (self._note(token, "hex"),)
        if "." in token:
            return self._dotted(token)
        return (self._note(token, "name"),) if token.upper() != token.lower() else ()

    def _dotted(self, token: str) -> tuple[str, ...]:
        _stem, _dot, suffix = token.rpartition(".")
        if suffix.lower() in _CODE_SUFFIXES and _FILE.fullmatch(token):
            return (self._note(token, "path"),)
        parts = [part for part in token.split(".") if len(part) > 2]
        if len(parts) < 2:
            return tuple(self._note(part, "name") for part in parts if _is_name(part))
        return (self._note(token, "name"), *(self._note(part, "name") for part in parts if _is_name(part)))

    def _word(self, raw: str) -> tuple[str, ...]:
        """In a conversation without code: names (capitals) and pieces of scripts without spaces."""
        if not self.words:
            return ()
        if not raw.isascii():
            return tuple(self._note(piece, "word") for run in _NO_SPACES.findall(raw) for piece in _pairs(run))
        return (self._note(raw, "word"),) if len(raw) > 3 and not raw.islower() else ()


class _Known(dict[str, tuple[str, ...]]):
    """What each raw token holds, looked at when it is first met."""

    def __init__(self, extractor: Extractor) -> None:
        super().__init__()
        self._extractor = extractor

    def __missing__(self, raw: str) -> tuple[str, ...]:
        found = self[raw] = self._extractor.classify(raw)
        return found


def _is_name(token: str) -> bool:
    """Whether a token without dots and slashes has the shape of an identifier: inner capitals, or letters and other signs."""
    if token.isalpha():
        return not (token.islower() or token.istitle() or token.isupper())
    return token.upper() != token.lower()


def _is_foreign(text: str) -> bool:
    """Whether a noticeable part of a text is written in letters beyond ASCII (and not only in signs and lines of boxes)."""
    if (len(text.encode("utf-8", "surrogatepass")) - len(text)) * 50 < len(text):
        return False
    return sum(map(len, _FOREIGN.findall(text))) * 50 > len(text)


def _pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def words_of(text: str) -> set[str]:
    """The plain words of a prose, in lower case; pairs of characters where a script writes no spaces."""
    words = {word.lower() for word in _LETTERS.findall(text)}
    if not text.isascii():
        runs = _NO_SPACES.findall(text)
        words.difference_update(run.lower() for run in runs)
        words.update(pair for run in runs for pair in _pairs(run))
    return words


def find(text: str, reference: str) -> int:
    """Where a reference stands in a text, best as a whole and not inside a longer name; -1 where it does not."""
    size = len(reference)
    first = at = text.find(reference)
    for _ in range(_FINDS):
        if at < 0:
            return first
        before, after = text[at - 1 : at], text[at + size : at + size + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return at
        at = text.find(reference, at + size)
    return first
