"""What the readers of agents' trajectory files share: one document or several, content parts, calls, usage.

Trajectory files come as one JSON document, as a list of them, or as one on each line; a document written without
line ends has the shape of JSON lines too. All of these are read the same way here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ..core.entries import Usage
from ..core.messages import JSON, Block, Document, Image, Object, Text, Thinking, ToolUse, decode_block
from ..core.transcript import OtherRecord
from .common import count, openai_usage
from .source import Source, loads


def documents(source: Source) -> Iterator[tuple[int, Object]]:
    """The objects that a file holds at its top, each with its number: the line, or in a list the item (from 1)."""
    if source.shape == "lines":
        for line, value in source.values():
            yield from _numbered(source, value, line.number)
    elif source.shape == "document":
        yield from _numbered(source, source.document, 1)


def _numbered(source: Source, value: JSON, number: int) -> Iterator[tuple[int, Object]]:
    items = value if isinstance(value, list) else [value]
    for place, item in enumerate(items):
        if isinstance(item, dict):
            yield number + place, item
        else:
            source.bad(number + place, f"a {type(item).__name__} where an object was expected")


def dig(value: JSON, *path: str | int) -> JSON:
    """What stands at a path of keys and places; None where the path leads nowhere."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def text_at(value: JSON, *path: str | int) -> str:
    """The text at a path; empty where there is none."""
    found = dig(value, *path)
    return found if isinstance(found, str) else ""


def items_at(value: JSON, *path: str | int) -> list[JSON]:
    """The list at a path; empty where there is none."""
    found = dig(value, *path)
    return found if isinstance(found, list) else []


def objects_at(value: JSON, *path: str | int) -> list[Object]:
    """The objects of the list at a path; what is no object in it is left out."""
    return [item for item in items_at(value, *path) if isinstance(item, dict)]


def object_at(value: JSON, *path: str | int) -> Object:
    """The object at a path; an empty one where there is none."""
    found = dig(value, *path)
    return found if isinstance(found, dict) else {}


def rest_of(data: Object, *known: str) -> Object:
    """What of an object is not modelled."""
    return {key: value for key, value in data.items() if key not in known}


def numbered_objects(source: Source, records: Iterable[JSON], what: str) -> Iterator[tuple[int, Object]]:
    """Each record with its number from 1; what is no object is listed as bad."""
    for number, record in enumerate(records, 1):
        if isinstance(record, dict):
            yield number, record
        else:
            source.bad(number, f"{what} {number} is a {type(record).__name__}, not an object")


def other_record(number: int, record: JSON) -> OtherRecord:
    """A record that no model saw."""
    return OtherRecord(number, msgspec.json.encode(record))


def media_block(url: str, mime: str = "", extra: Object | None = None) -> Block:
    """An image or a document from a data URL, a web address or a path.

    A path stays one (``{"type": "path", "path": …}``): it names a file beside the recording, which is not read.
    """
    source: Object
    if url.startswith("data:") and "," in url:
        head, data = url[5:].split(",", 1)
        mime = head.split(";", 1)[0] or mime
        source = {"type": "base64", "media_type": mime, "data": data}
    elif url.startswith(("http://", "https://")):
        source = {"type": "url", "url": url}
    else:
        source = {"type": "path", "path": url}
    if mime in ("", "image/*") or mime.startswith("image/"):
        return Image(source, extra or {})
    return Document(source, extra or {})


def content_blocks(content: JSON) -> tuple[tuple[Block, ...], bool]:
    """The blocks of a chat message's content, and whether it was one plain string. Empty text makes no block (I3)."""
    if isinstance(content, str):
        return ((Text(content),), True) if content else ((), True)
    if not isinstance(content, list):
        return (), False
    return tuple(block for part in content for block in _part_blocks(part)), False


def _part_blocks(part: JSON) -> tuple[Block, ...]:
    match part:
        case str(text):
            return (Text(text),) if text else ()
        case {"type": "text" | "input_text" | "output_text", "text": ""}:
            return ()
        case {"type": "input_text" | "output_text", "text": str(text)}:
            return (Text(text),)
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "image_url" | "input_image", "image_url": str(url)}:
            return (media_block(url),)
        case {"type": "image", "image_urls": list(urls)}:  # OpenHands
            return tuple(media_block(url) for url in urls if isinstance(url, str))
        case _:
            return (decode_block(part),)


def thinking_blocks(message: JSON) -> tuple[Block, ...]:
    """The thinking that a chat message in LiteLLM's shape carries: signed blocks where there are, else plain text."""
    signed = tuple(decode_block(part) for part in items_at(message, "thinking_blocks"))
    if signed:
        return signed
    text = text_at(message, "reasoning_content") or text_at(message, "reasoning")
    return (Thinking(text),) if text else ()


def arguments(value: JSON) -> JSON:
    """The input of a call; JSON in a string is read, a malformed one stays its text."""
    if not isinstance(value, str):
        return value
    try:
        return loads(value) if value else {}
    except ValueError:
        return value


def chat_calls(calls: JSON) -> tuple[ToolUse, ...]:
    """The calls of a chat message in OpenAI's shape, ``{id, function: {name, arguments}}``."""
    found = calls if isinstance(calls, list) else []
    return tuple(
        ToolUse(text_at(call, "id"), text_at(call, "function", "name"), arguments(dig(call, "function", "arguments")))
        for call in found
        if isinstance(call, dict)
    )


def litellm_usage(data: JSON) -> Usage | None:
    """OpenAI's usage as LiteLLM fills it: cache writes stand beside it under Anthropic's name, inside its input."""
    usage = openai_usage(data)
    if usage is None or not usage.size or not isinstance(data, dict):
        return None
    if "cache_creation_input_tokens" not in data and "cache_read_input_tokens" not in data:
        return usage
    written = count(data, "cache_creation_input_tokens") - usage.cache_write
    read = count(data, "cache_read_input_tokens") - usage.cache_read
    moved_write, moved_read = max(0, written), max(0, read)
    if not moved_write and not moved_read:
        return usage
    return msgspec.structs.replace(
        usage,
        input=max(0, usage.input - moved_write - moved_read),
        cache_write=usage.cache_write + moved_write,
        cache_read=usage.cache_read + moved_read,
    )


def usage_of(fresh: int, output: int, *, thinking: int = 0, read: int = 0, written: int = 0, total: int = 0) -> Usage | None:
    """Usage from counts whose overlap differs from writer to writer; the total tells which it is (T2).

    The total may show that the thinking stands beside the output, or that the cached parts stand inside the input.
    """
    if thinking and total == fresh + output + thinking + read + written:
        output += thinking
    elif read + written and total == fresh + output:
        fresh = max(0, fresh - read - written)
    usage = Usage(input=fresh, cache_write=written, cache_read=read, output=output, thinking=thinking)
    return usage if usage.size else None
