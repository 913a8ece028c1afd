"""References in text: the paths, names, commands, numbers, hex ids, flags, error texts and quoted strings by which later work
points back to earlier (spec B2).

A text is cut into pieces: its lines, long ones cut further. Equal pieces of one conversation are looked at once, and so are
equal raw tokens (``str.translate`` and ``split``, in C), so reading the same file again costs next to nothing. The pieces
are also what a digest picks from: a reference is known with the piece it stands in.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, compress
from typing import Literal, TypeAlias

from .spoken import Row

Kind: TypeAlias = Literal["path", "name", "command", "number", "hex", "error", "quoted", "flag", "word"]

LINE_CHARS = 180
"""A longer line is cut into pieces."""
MOST_CHARS = 120
"""Longer tokens are data, not references."""
NUMBER_CHARS = 5
"""A bare whole number has at least so many digits to be a reference."""
SCRIPT_CHARS = 2_000
"""So much of a call's input is looked at for commands."""
_PIECE_CHARS = (50, 120)
"""Least and most characters of a piece of a long line."""
_FINDS = 20
"""So many places are looked at for one where a reference stands as a whole."""

_INSIDE = "_./-@~+#"
_LINE_END = "\x01"
"""What stands for the end of a piece among the tokens: a letter that no token has, since it separates them."""
_END: Row = (_LINE_END,)
_TOKENS = bytes(1 if code == 10 else code if chr(code).isalnum() or chr(code) in _INSIDE else 32 for code in range(128)) + b" " * 128
_ASCII = bytes(range(128))
_PATH = re.compile(r"[~.]{0,2}/?(?:[\w.@+#~-]+/)*[\w.@+#~-]+")
_FILE = re.compile(r"[\w-]+(?:\.[\w-]+)*\.[A-Za-z][A-Za-z0-9]{0,4}")
_HEX = re.compile(r"(?:[0-9a-f]{7,64}|[0-9A-F]{7,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_NUMBER = re.compile(r"v?\d[\d.-]*\d")
_AMOUNT = re.compile(r"\d+[A-Za-z]{1,3}")
"""A number with its unit (``10ms``, ``3rd``, ``512KB``)."""
_EDGES = "./-+#@~"
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
_ERROR_WORDS = ("rror", "xception", "RROR", "anic", "atal", "AILED")
_ERROR = re.compile(r"(?:\[\w+\])?: ([^\n]{8,100})")
_TOKEN = re.compile(r"[\w./@~+#-]+")
_COMMAND = re.compile(r"(?:^|&&|\|\|?|;)[ \t]*(?:sudo |time )?([a-z][\w.-]*) ([a-z][\w:-]+)", re.M)
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


def pieces_of(text: str) -> list[str]:
    """The lines of a text, those longer than ``LINE_CHARS`` in pieces."""
    lines = text.split("\n")
    if len(text) <= LINE_CHARS or max(map(len, lines)) <= LINE_CHARS:
        return lines
    return [piece for line in lines for piece in ((line,) if len(line) <= LINE_CHARS else _cut(line))]


def starts_of(text: str) -> list[int]:
    """Where each piece of a text starts."""
    lines = text.split("\n")
    if len(text) <= LINE_CHARS or max(map(len, lines)) <= LINE_CHARS:
        return list(accumulate([len(line) + 1 for line in lines[:-1]], initial=0))
    starts: list[int] = []
    at = 0
    for line in lines:
        pieces = (line,) if len(line) <= LINE_CHARS else _cut(line)
        starts += accumulate(map(len, pieces[:-1]), initial=at)
        at += len(line) + 1
    return starts


def _cut(line: str) -> list[str]:
    """A long line in pieces, best at the end of a sentence, else at a blank, else at a comma, else anywhere."""
    least, most = _PIECE_CHARS
    pieces: list[str] = []
    at = 0
    while len(line) - at > most:
        low, high = at + least, at + most
        end = line.rfind(". ", low, high) + 1 or line.rfind(" ", low, high) or high
        if end < low:
            end = line.rfind(",", low, high) + 1 or high
        pieces.append(line[at:end])
        at = end
    pieces.append(line[at:])
    return pieces


class Shapes:
    """Finds the references of texts of one conversation. ``words``: plain words that look like names count too, for
    conversations without code."""

    def __init__(self, *, words: bool = False) -> None:
        self.kinds: dict[str, Kind] = {}
        """The kind of each reference found so far."""
        self.words = words
        self._known = _Known(self)
        self._rows: dict[str, Row] = {}
        self._pairs: dict[str, dict[str, str]] = {}
        """Commands by their first and second words."""

    def rows(self, pieces: Sequence[str]) -> list[Row]:
        """The references of each piece."""
        rows = self._rows
        new = [piece for piece in dict.fromkeys(pieces) if piece not in rows]
        if new:
            rows.update(zip(new, self._read(new), strict=True))
        return list(map(rows.__getitem__, pieces))

    def _read(self, pieces: list[str]) -> list[Row]:
        joined = "\n".join(pieces)
        row: list[str] = []
        made = [row]
        for found in filter(None, map(self._known.__getitem__, _raw(joined))):
            if found is _END:
                made.append(row := [])
            else:
                row += found
        starts: list[int] = []
        for at, reference in self._phrases(joined):
            starts = starts or [*accumulate((len(piece) + 1 for piece in pieces), initial=0)]
            made[bisect_right(starts, at) - 1].append(reference)
        return [tuple(row) if len(row) < 2 else tuple(dict.fromkeys(row)) for row in made]

    def _phrases(self, text: str) -> Iterator[tuple[int, str]]:
        """Places and references that a splitting at separators does not find."""
        for quote, pattern in zip(_QUOTES, _QUOTED, strict=True):
            if quote in text:
                for match in pattern.finditer(text):
                    said = match[1]
                    if " " in said or not said.isascii():
                        yield match.start(1), self._note(said.strip(), "quoted")
        for at, told in _errors(text):
            yield at, self._note(told, "error")
        for at, token in _foreign(text):
            for reference in self._known[token]:
                yield at, reference

    def commands(self, script: str) -> list[tuple[int, str]]:
        """Places and two-word commands of a shell script (``git rebase``)."""
        found: list[tuple[int, str]] = []
        for match in _COMMAND.finditer(script[:SCRIPT_CHARS]):
            command = self._note(f"{match[1]} {match[2]}", "command")
            first, second, *_ = _raw(command)
            self._pairs.setdefault(first, {})[second] = command
            found.append((match.start(1), command))
        return found

    def seen_in(self, text: str) -> set[str]:
        """The references of a text that are known already, commands too; nothing is remembered of it."""
        raw = _raw(text)
        known = set(raw) & self._known.keys()
        found = set().union(*map(self._known.__getitem__, known))
        for i in compress(range(len(raw) - 1), map(self._pairs.__contains__, raw)):
            command = self._pairs[raw[i]].get(raw[i + 1])
            if command is not None:
                found.add(command)
        for quote, pattern in zip(_QUOTES, _QUOTED, strict=True):
            if quote in text:
                found.update(match.strip() for match in pattern.findall(text))
        found.update(told for _, told in _errors(text))
        for _, token in _foreign(text):
            found.update(self._known.get(token, ()))
        return found & self.kinds.keys()

    def _note(self, reference: str, kind: Kind) -> str:
        self.kinds.setdefault(reference, kind)
        return reference

    def classify(self, raw: str) -> Row:
        """The references that a raw token holds: none, one, or a dotted name and its parts."""
        if raw.isalpha():
            if not raw.isascii() and _NO_SPACES.search(raw):
                return self._word(raw)
            if raw.islower() or raw.istitle() or raw.isupper():
                return self._word(raw) if self.words else ()
            return (self._note(raw, "name"),) if 2 < len(raw) <= MOST_CHARS else ()
        if raw.isdigit():
            return (self._note(raw, "number"),) if NUMBER_CHARS <= len(raw) <= MOST_CHARS else ()
        if not raw.isascii() and _NO_SPACES.search(raw):
            return self._word(raw)
        if not 2 < len(raw) <= MOST_CHARS:
            return ()
        if raw[0] in _EDGES or raw[-1] in _EDGES:
            if raw.startswith("--") and len(raw) > 4 and raw[2].isalpha():
                return (self._note(raw.rstrip("-./"), "flag"),)
            raw = raw.rstrip(_EDGES).lstrip("+#-")
            if raw.startswith("//"):
                raw = raw.lstrip("/")
            if len(raw) < 3 or raw.isdigit() or raw.isalpha():
                return self.classify(raw) if len(raw) > 2 else ()
        return self._shaped(raw)

    def _shaped(self, token: str) -> Row:
        if "/" in token:
            good = len(token) > 5 and token.upper() != token.lower() and _PATH.fullmatch(token)
            return (self._note(token, "path"),) if good else ()
        first = token[0]
        if first.isdigit() or first == "v":
            if _NUMBER.fullmatch(token):
                return (self._note(token, "number"),)
            if _AMOUNT.fullmatch(token) and len(token) < 7:
                return ()
        if len(token) > 6 and first in "0123456789abcdefABCDEF" and _HEX.fullmatch(token):
            return (self._note(token, "hex"),)
        if "." in token:
            return self._dotted(token)
        return (self._note(token, "name"),) if token.upper() != token.lower() else ()

    def _dotted(self, token: str) -> Row:
        _stem, _dot, suffix = token.rpartition(".")
        if suffix.lower() in _CODE_SUFFIXES and _FILE.fullmatch(token):
            return (self._note(token, "path"),)
        parts = [part for part in token.split(".") if len(part) > 2]
        if len(parts) < 2:
            return tuple(self._note(part, "name") for part in parts if _is_name(part))
        return (self._note(token, "name"), *(self._note(part, "name") for part in parts if _is_name(part)))

    def _word(self, raw: str) -> Row:
        """In a conversation without code: names (capitals) and pieces of scripts without spaces."""
        if not self.words:
            return ()
        if not raw.isascii():
            return tuple(self._note(piece, "word") for run in _NO_SPACES.findall(raw) for piece in _pairs(run))
        return (self._note(raw, "word"),) if len(raw) > 3 and not raw.islower() else ()


class _Known(dict[str, Row]):
    """What each raw token holds, looked at when it is first met."""

    def __init__(self, shapes: Shapes) -> None:
        super().__init__({_LINE_END: _END})
        self._shapes = shapes

    def __missing__(self, raw: str) -> Row:
        found = self[raw] = self._shapes.classify(raw)
        return found


def _raw(text: str) -> list[str]:
    """The raw tokens of a text, and between them the ends of its lines."""
    plain = text.encode("ascii", "replace").translate(_TOKENS).decode("ascii")
    return plain.replace(_LINE_END, f" {_LINE_END} ").split()


def _errors(text: str) -> Iterator[tuple[int, str]]:
    """Places and texts of errors that are told behind a colon."""
    for word in _ERROR_WORDS:
        at = text.find(word)
        while at >= 0:
            at += len(word)
            told = _ERROR.match(text, at)
            if told is not None:
                yield told.start(1), told[1].strip()
            at = text.find(word, at)


def _foreign(text: str) -> Iterator[tuple[int, str]]:
    """Places and texts of the tokens with letters beyond ASCII."""
    if text.isascii():
        return
    others = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
    letters = "".join(sorted(filter(str.isalpha, set(others))))
    stop = 0
    for match in re.finditer(f"[{letters}]+", text) if letters else ():  # and not only signs and lines of boxes
        if match.start() >= stop:
            start, stop = match.start(), _TOKEN.match(text, match.start()).end()  # type: ignore[union-attr]
            while start and (text[start - 1].isalnum() or text[start - 1] in _INSIDE):
                start -= 1
            yield start, text[start:stop]


def _is_name(token: str) -> bool:
    """Whether a token without dots and slashes has the shape of an identifier: inner capitals, or letters and other signs."""
    if token.isalpha():
        return not (token.islower() or token.istitle() or token.isupper())
    return token.upper() != token.lower()


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


def every(rows: Iterable[Row]) -> set[str]:
    """All references of some rows."""
    return set().union(*rows)
