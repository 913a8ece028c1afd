"""A file to read, in whichever of four shapes it has: JSON lines, one JSON document, a zip archive, text.

Bounds (H4): one line of JSON lines at most ``MAX_LINE`` bytes, a whole document at most ``MAX_DOCUMENT``. Longer ones
are passed over in pieces and named, never loaded.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

import msgspec

from ..core.messages import JSON
from ..core.transcript import BadLine
from ..errors import BadLineError, InputError

MAX_LINE = 64 * 1024 * 1024
MAX_DOCUMENT = 256 * 1024 * 1024
READ_AHEAD = 256 * 1024
"""Long lines are read in few pieces."""
Shape: TypeAlias = Literal["lines", "document", "zip", "text"]

_decode = msgspec.json.Decoder().decode


class Line(NamedTuple):
    """One line of a JSON-lines file, its number from 1, its bytes without the line end."""

    number: int
    data: bytes


def loads(data: bytes | str) -> JSON:
    """JSON as a value. Fast where the input is strict; what other writers let through (NaN, half surrogate pairs,
    numbers out of range) is read too, half surrogates becoming U+FFFD. Raises ValueError, with words for a person."""
    try:
        value: JSON = _decode(data)
        return value
    except RecursionError:
        raise ValueError("nested too deep to read") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _lenient(data, str(error))


def _lenient(data: bytes | str, why: str) -> JSON:
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        value: JSON = json.loads(text)
        return scrub_surrogates(value)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 (byte 0x{error.object[error.start]:02x} at {error.start})") from None
    except RecursionError:
        raise ValueError("nested too deep to read") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos}") from None
    except ValueError:
        raise ValueError(f"not JSON: {why}") from None


def scrub_surrogates(value: JSON) -> JSON:
    """The value with half surrogate pairs, which no provider accepts and UTF-8 cannot hold, as U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [scrub_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {str(scrub_surrogates(key)): scrub_surrogates(item) for key, item in value.items()}
    return value


class Source:
    """An open transcript file: its shape, its lines or its document, and the list of what could not be read."""

    def __init__(self, path: str | Path, *, strict: bool = False) -> None:
        self._path = path
        self.path = os.fsencode(path).decode("utf-8", "backslashreplace")
        """How to call the file in messages and reports, whatever bytes its name has."""
        self.strict = strict
        self.bad_lines: list[BadLine] = []

    # --- opening

    @functools.cached_property
    def _piped(self) -> bytes | None:
        """All of a pipe or of standard input (named ``-``), which can be read only once; None for a file."""
        try:
            if str(self._path) == "-":
                return self._bounded(sys.stdin.buffer)
            if not stat.S_ISFIFO(os.stat(self._path).st_mode):
                return None
            with open(self._path, "rb") as pipe:
                return self._bounded(pipe)
        except OSError:
            return None  # said where it is opened

    def _bounded(self, pipe: BinaryIO) -> bytes:
        data = pipe.read(MAX_DOCUMENT + 1)
        if len(data) > MAX_DOCUMENT:
            raise InputError(f"the pipe holds more than {MAX_DOCUMENT:,} bytes; save it to a file", path=self.path)
        return data.removeprefix(b"\xef\xbb\xbf")

    def open(self) -> BinaryIO:
        """The file from its start, a UTF-8 byte order mark left out. Raises InputError where it can't be opened."""
        if self._piped is not None:
            return io.BytesIO(self._piped)
        try:
            file = open(self._path, "rb", buffering=READ_AHEAD)  # noqa: SIM115  # the caller closes it
        except OSError as error:
            raise InputError(f"cannot be opened: {error.strerror}", path=self.path) from None
        if file.read(3) != b"\xef\xbb\xbf":
            file.seek(0)
        return file

    @functools.cached_property
    def size(self) -> int:
        """Bytes of the file."""
        with self.open() as file:
            return file.seek(0, io.SEEK_END)

    @functools.cached_property
    def shape(self) -> Shape:
        """Which of the four shapes the content has. Raises InputError for an empty, binary or wrongly encoded file."""
        with self.open() as file:
            start = file.read(65536)
        if not start.strip():
            raise InputError("the file is empty", path=self.path)
        if start.startswith(b"PK\x03\x04"):
            return "zip"
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError("the file is UTF-16; save it as UTF-8", path=self.path)
        if start.count(b"\0", 0, 512) or (b"\0" in start and b"\n" not in start):
            raise InputError("the file is binary, not a transcript", path=self.path)
        head = start.lstrip()[:1]
        if head not in (b"{", b"["):
            return "text"
        return "lines" if self._first_line_is_whole() else "document"

    def _first_line_is_whole(self) -> bool:
        """JSON lines: a line among the first three is a JSON value on its own (a first one may be torn or too long)."""
        with self.open() as file:
            for line, _ in itertools.islice(_bounded_lines(file), 3):
                if line[:1] in (b"{", b"[") and line.rstrip()[-1:] in (b"}", b"]"):
                    try:
                        _decode(line)
                        return True
                    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                        continue
        return False

    # --- reading

    def lines(self) -> Iterator[Line]:
        """The lines that are not blank, in a stream. One over ``MAX_LINE`` is passed over and listed as bad."""
        with self.open() as file:
            for number, (data, size) in enumerate(_bounded_lines(file), 1):
                if size > MAX_LINE:
                    self.bad(number, f"the line has {size:,} bytes, over the limit of {MAX_LINE:,}")
                    continue
                data = data.strip()
                if data:
                    yield Line(number, data)

    def values(self) -> Iterator[tuple[Line, JSON]]:
        """Each line with its JSON value; lines that are no JSON are listed as bad."""
        for line in self.lines():
            try:
                yield line, loads(line.data)
            except ValueError as error:
                self.bad(line.number, str(error))

    def objects(self) -> Iterator[tuple[Line, dict[str, JSON]]]:
        """Each line that is a JSON object; the others are listed as bad."""
        for line, value in self.values():
            if isinstance(value, dict):
                yield line, value
            else:
                self.bad(line.number, f"a {type(value).__name__} where an object was expected")

    @functools.cached_property
    def document(self) -> JSON:
        """The whole file as one JSON value. Raises InputError, naming the line, where it is not one."""
        data = self.whole()
        try:
            return loads(data)
        except ValueError as error:
            why = str(error)
            if "Extra data" in why:
                why = "several JSON values one after another, laid out over lines; `jq -c . FILE` puts each on a line of its own"
            raise InputError(why, path=self.path, line=_line_of(data, error)) from None

    def whole(self) -> bytes:
        """All bytes. Raises InputError over ``MAX_DOCUMENT``."""
        if self.size > MAX_DOCUMENT:
            raise InputError(f"the document has {self.size:,} bytes, over the limit of {MAX_DOCUMENT:,}", path=self.path)
        with self.open() as file:
            return file.read()

    def text(self) -> str:
        """All of it as text. Raises InputError where it is not UTF-8, naming the line."""
        data = self.whole()
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise InputError(f"not UTF-8 (byte 0x{data[error.start]:02x})", path=self.path, line=line) from None

    @functools.cached_property
    def first_objects(self) -> tuple[dict[str, JSON], ...]:
        """Up to 20 objects from the start, for recognising the format; unreadable lines are passed over silently.
        For a document, the document itself where it is an object, else its first items."""
        shape = self.shape
        if shape == "document":
            document = self.document
            items = document if isinstance(document, list) else [document]
            return tuple(item for item in items[:20] if isinstance(item, dict))
        found: list[dict[str, JSON]] = []
        if shape == "lines":
            with self.open() as file:
                for data, _ in itertools.islice(_bounded_lines(file), 60):
                    try:
                        value = loads(data)
                    except ValueError:
                        continue
                    found.extend(item for item in (value if isinstance(value, list) else [value])[:20] if isinstance(item, dict))
                    if len(found) >= 20:
                        break
        return tuple(found[:20])

    def bad(self, line: int, why: str) -> None:
        """List a line as unreadable; in strict mode raise BadLineError instead."""
        if self.strict:
            raise BadLineError(f"{why} (--strict)", path=self.path, line=line)
        self.bad_lines.append(BadLine(line, why))


def _bounded_lines(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The lines of a file with their sizes; of one over ``MAX_LINE`` bytes nothing but its size."""
    while data := file.readline(MAX_LINE + 1):
        size = len(data)
        if size > MAX_LINE and not data.endswith(b"\n"):
            while data and not data.endswith(b"\n"):
                data = file.readline(MAX_LINE)
                size += len(data)
            data = b""
        yield data, size


def _line_of(data: bytes, error: ValueError) -> int | None:
    """The line of a JSON error whose words end in a character or byte offset."""
    digits = "".join(ch for ch in str(error).rsplit(" ", 1)[-1] if ch.isdigit())
    return data.count(b"\n", 0, int(digits)) + 1 if digits else None
