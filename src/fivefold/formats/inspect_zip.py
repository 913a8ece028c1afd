"""The zip of an Inspect log (``.eval``): its header, and its samples one at a time, within bounds (H4)."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import msgspec

from ..core.messages import JSON, Object
from ..errors import InputError
from .parts import dig, items_at
from .source import MAX_DOCUMENT, Source, loads

MAX_MEMBER = MAX_DOCUMENT
"""Most bytes that one member may unpack to."""
MAX_TOTAL = 2 * 1024 * 1024 * 1024
"""Most bytes that all members read may unpack to."""
MAX_RATIO = 200
"""Most that the members together may grow by: recorded text shrinks to a tenth or so, not to a thousandth."""
MAX_MEMBERS = 1_000_000
MAX_MESSAGES = 1_000_000
"""Most messages of one sample in chunks, whose ranges may name one message many times."""

_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    struct.error,
    UnicodeDecodeError,
    RuntimeError,
    OSError,
    ValueError,
    IndexError,
    OverflowError,
)
"""What the standard library raises for a damaged zip; an encrypted member is a RuntimeError."""
_SAMPLE = re.compile(r"samples/[^/]+\.json")
_SHELL = re.compile(r"(samples/.+)/sample\.json")
_HEADERS = ("header.json", "_journal/start.json")


class _Event(msgspec.Struct):
    """What of an event is decoded; the rest, which is most of a sample, is only passed over."""

    event: Any = None
    output: Any = None
    tools: Any = None
    timestamp: Any = None
    completed: Any = None


_events_decoder = msgspec.json.Decoder(list[_Event])
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Archive:
    """An open ``.eval`` file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.left = MAX_TOTAL
        self._file = source.open()
        try:
            self._zip = zipfile.ZipFile(self._file)
            infos = self._zip.infolist()
        except (*_BROKEN, NotImplementedError) as error:
            self._file.close()
            raise InputError(f"the zip cannot be read: {error}", path=source.path) from None
        if len(infos) > MAX_MEMBERS:
            self._file.close()
            raise InputError(f"the zip has {len(infos):,} members, over the limit of {MAX_MEMBERS:,}", path=source.path)
        unpacked, packed = sum(info.file_size for info in infos), sum(info.compress_size for info in infos)
        if unpacked > max(MAX_DOCUMENT, packed * MAX_RATIO):
            self._file.close()
            raise InputError(f"the zip would unpack {packed:,} bytes to {unpacked:,}, over the limit of {MAX_RATIO} to 1", path=source.path)
        # Of members with one name the last counts: a log is appended to while the run goes on.
        self._infos = {info.filename: info for info in infos}
        self._numbers = {name: place for place, name in enumerate(self._infos, 1)}

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._zip.close()
        self._file.close()

    @staticmethod
    def is_log(source: Source) -> bool:
        """Whether a zip holds an Inspect log, by the names of its members."""
        try:
            with source.open() as file, zipfile.ZipFile(file) as opened:
                names = opened.namelist()
        except (*_BROKEN, NotImplementedError):
            return False
        return any(name in names for name in _HEADERS)

    def header(self) -> Object:
        """The log without its samples; of a run that was cut off, what it started with."""
        for name in _HEADERS:
            value = self._json(name) if name in self._infos else None
            if isinstance(value, dict):
                return value
        return {}

    def samples(self) -> Iterator[tuple[int, Object]]:
        """The samples, each with the number of its member from 1. Those that cannot be read are listed as bad."""
        for name, number in self._numbers.items():
            shell = _SHELL.fullmatch(name)
            value: JSON = None
            if _SAMPLE.fullmatch(name):
                value = self._sample(name)
            elif shell:
                value = self._chunked(shell[1])
            else:
                continue
            if isinstance(value, dict):
                yield number, value

    def _sample(self, name: str) -> JSON:
        """A sample with only the model calls of its events."""
        data = self._bytes(name)
        if data is None:
            return None
        try:
            return _without_idle_events(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return self._loads(name, data)

    def _json(self, name: str) -> JSON:
        data = self._bytes(name)
        return None if data is None else self._loads(name, data)

    def _loads(self, name: str, data: bytes) -> JSON:
        try:
            value = loads(data)
        except ValueError as error:
            self.source.bad(self._numbers[name], f"{name}: {error}")
            return None
        if isinstance(value, dict | list):
            return value
        self.source.bad(self._numbers[name], f"{name}: a {type(value).__name__} where an object was expected")
        return None

    def _bytes(self, name: str) -> bytes | None:
        """A member unpacked, within the bounds. Raises InputError where the whole goes over its limit."""
        number = self._numbers[name]
        try:
            with self._zip.open(self._infos[name]) as member:
                data = member.read(min(MAX_MEMBER, self.left) + 1)
        except NotImplementedError:
            how = self._infos[name].compress_type
            method = "Zstandard" if how == 93 else f"method {how}"
            why = f"{name} is packed with {method}, which this Python cannot unpack; write the log anew with: inspect log convert --to json"
            raise InputError(why, path=self.source.path) from None
        except _BROKEN as error:
            self.source.bad(number, f"{name}: {error or type(error).__name__}")
            return None
        if len(data) > self.left:
            raise InputError(f"the zip unpacks to more than the limit of {MAX_TOTAL:,} bytes", path=self.source.path)
        self.left -= len(data)
        if len(data) > MAX_MEMBER:
            self.source.bad(number, f"{name} unpacks to more than the limit of {MAX_MEMBER:,} bytes")
            return None
        return data

    def _chunked(self, prefix: str) -> JSON:
        """A sample in chunks: its messages are ranges of a sequence that is cut into members by their first index."""
        shell = self._json(f"{prefix}/sample.json")
        if not isinstance(shell, dict):
            return shell
        pool = self._sequence(prefix, "messages")
        messages: list[JSON] = []
        for item in items_at(shell, "message_refs"):
            first, end = dig(item, 0), dig(item, 1)
            if isinstance(first, int) and isinstance(end, int):
                messages.extend(pool[max(0, first) : max(0, end)])
            if len(messages) > MAX_MESSAGES:
                raise InputError(f"{prefix} has more than {MAX_MESSAGES:,} messages", path=self.source.path)
        texts = self._sequence(prefix, "attachments")
        attachments: Object = {str(place): text for place, text in enumerate(texts)}
        return {**shell, "messages": messages, "attachments": attachments, "events": self._sequence(prefix, "events")}

    def _sequence(self, prefix: str, what: str) -> list[JSON]:
        start = f"{prefix}/{what}/"
        firsts = [name[len(start) : -5] for name in self._infos if name.startswith(start) and name.endswith(".json")]
        chunks = (self._json(f"{start}{first}.json") for first in sorted((f for f in firsts if f.isdecimal()), key=int))
        return [item for chunk in chunks for item in items_at({"chunk": chunk}, "chunk")]


def _without_idle_events(data: bytes) -> JSON:
    """A sample whose events are cut down to its model calls. Raises msgspec's DecodeError where it has another shape."""
    fields = _fields_decoder.decode(data)
    events: list[JSON] = [
        {"event": "model", "output": event.output, "tools": event.tools, "timestamp": event.timestamp, "completed": event.completed}
        for event in _events_decoder.decode(fields.pop("events", b"[]"))
        if event.event == "model"
    ]
    sample: Object = {key: msgspec.json.decode(raw) for key, raw in fields.items()}
    return {**sample, "events": events}
