"""What OpenAI's two APIs, Chat and Responses, have in common on the wire: argument strings and data URLs.

Both decoders keep one rule: what goes out is what came in. A string that would not come out of its parsed value
byte for byte is kept beside the value, in ``extra``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ..core.entries import Entry
from ..core.messages import JSON, Message, Object
from .fields import is_single_document
from .source import Source, loads


class Top(NamedTuple):
    """A JSON value at the top of a file. ``line``: its line in JSON lines, None where the file is this one value."""

    line: int | None
    value: JSON


def tops(source: Source) -> Iterator[Top]:
    """The values at the top of a file: each line's, or the one document's (which may be written on one line)."""
    if source.shape == "document":
        yield Top(None, source.document)
        return
    alone = is_single_document(source)
    for line, value in source.values():
        yield Top(None if alone else line.number, value)


def entry_of(message: Message, id: str, line: int) -> Entry:
    """An entry of a decoded message."""
    return Entry(id=id, kind=message.role, blocks=message.blocks, bare=message.bare, extra=message.extra, line=line)


def decode_arguments(data: JSON) -> tuple[JSON, Object]:
    """The value of a call's ``arguments``, and ``{"arguments": data}`` where the value alone would not give it back."""
    if not isinstance(data, str):
        return data, {"arguments": data}
    try:
        value = loads(data)
    except ValueError:
        return data, {"arguments": data}
    return value, {} if encode_arguments(value) == data else {"arguments": data}


def encode_arguments(value: JSON) -> str:
    """A call's ``arguments``: compact JSON, as the models themselves write it; of no input an empty object."""
    return "{}" if value is None else compact_json(value)


def compact_json(value: JSON) -> str:
    """A value as JSON without spaces; empty text for one that is nested too deep to write."""
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, RecursionError):
        return _slow_json(value)


def _slow_json(value: JSON) -> str:
    """For what msgspec refuses: whole numbers over 64 bits. Too deep a nesting gives no text."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        return ""


def image_source(url: str) -> Object:
    """The source of an image or document from its address; a data URL gives its base64."""
    media_type, found, data = url[5:].partition(";base64,") if url.startswith("data:") else ("", "", "")
    if found and "/" in media_type and ";" not in media_type:
        return {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "url", "url": url}


def source_url(source: Object) -> str | None:
    """The address of a source, the inverse of ``image_source``; None for one that has none (a file id)."""
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            return f"data:{media_type};base64,{data}"
        case {"type": "url", "url": str(url)}:
            return url
        case _:
            return None
