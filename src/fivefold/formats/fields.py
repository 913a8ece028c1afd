"""Reading untrusted JSON objects: a field of the wanted type, or the type's empty value."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from ..core.messages import JSON, Object
from .common import parse_time
from .source import MAX_LINE, Source


def text_at(data: Mapping[str, JSON], key: str) -> str:
    """The text at a key; empty where there is none."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def object_at(data: Mapping[str, JSON], key: str) -> Object:
    """The object at a key; empty where there is none."""
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def list_at(data: Mapping[str, JSON], key: str) -> list[JSON]:
    """The list at a key; empty where there is none."""
    value = data.get(key)
    return value if isinstance(value, list) else []


def count_at(data: Mapping[str, JSON], key: str) -> int:
    """The whole number above zero at a key; 0 where there is none."""
    value = data.get(key)
    if type(value) is int:
        return max(0, value)
    return int(value) if isinstance(value, float) and math.isfinite(value) and value > 0 else 0


def time_at(data: Mapping[str, JSON], key: str) -> float | None:
    """The time at a key, in seconds since the epoch; None where there is none."""
    try:
        time = parse_time(data.get(key))
    except (OverflowError, ValueError):
        return None
    return time if time is not None and math.isfinite(time) else None


def without(data: Mapping[str, JSON], *keys: str) -> Object:
    """The object without some of its keys."""
    return {key: value for key, value in data.items() if key not in keys}


def as_text(value: JSON) -> str:
    """A value as text: text as it is, nothing as nothing, all else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def raw_of(value: JSON) -> msgspec.Raw:
    """A record of a whole-document format as source bytes of its own."""
    return msgspec.Raw(msgspec.json.encode(value))


def is_list(source: Source) -> bool:
    """Whether the file is a JSON list, whatever its lines: then it is no JSON-lines session, though its items may look so."""
    with source.open() as file:
        return file.read(4096).lstrip()[:1] == b"["


def is_single_document(source: Source) -> bool:
    """Whether the file is one JSON value: laid out over lines, or all on one (which reads as JSON lines, too)."""
    if source.shape != "lines":
        return source.shape == "document"
    with source.open() as file:
        file.readline(MAX_LINE)
        while block := file.read(65536):
            if block.strip():
                return False
    return True
