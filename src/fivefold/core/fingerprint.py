"""What names a message, and a history of them, for callers that send everything at every call (design: callers without state).

A message's identity leaves out cache marks, which clients move at every turn, and takes a list of one plain text for the bare string:
real clients send the one while a message is the last and the other afterwards. Order of keys does not count; all else does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import msgspec

from .messages import JSON

MARK = "cache_control"
_ENCODER = msgspec.json.Encoder(order="sorted")
SIZE = 16
"""Bytes of a digest: two histories of one user that share one by chance are out of reach."""


def plain(value: JSON) -> JSON:
    """A message, or a part of one, without cache marks, and with the bare string for a list of one plain text."""
    if isinstance(value, dict):
        return {key: _content(inner) if key == "content" else plain(inner) for key, inner in value.items() if key != MARK}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


def _content(value: JSON) -> JSON:
    found = plain(value)
    match found:
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return text
    return found


def identity(message: JSON) -> bytes:
    """Canonical bytes of a message as a client sends it."""
    return _ENCODER.encode(plain(message))


def digests(messages: Iterable[JSON], start: bytes = b"") -> Iterator[bytes]:
    """A running digest: the one of each message names all of the history up to it."""
    running = start
    for message in messages:
        running = blake2b(identity(message), key=running, digest_size=SIZE).digest()
        yield running
