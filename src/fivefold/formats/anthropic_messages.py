"""Messages of Anthropic's API to entries and back: what goes in comes out (I6).

Everything of a message but its role and content stays in ``Entry.extra``, except what only a response has (its id, usage,
stop reason …): a request that holds such keys is refused, so they stay in ``Entry.raw``, for ``encode`` alone. Content that
is neither a string nor a list is kept too: ``null`` in ``extra``, another value as one ``Opaque`` block marked ``bare``, and
``bare`` without any block says that the key was not there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ..core.entries import NO_RAW, SHOWN_AS, Entry, Usage
from ..core.messages import JSON, Block, Object, Opaque, Role, Text, decode_block, encode_block
from .claude_entries import is_harness
from .common import Ids, anthropic_usage, parse_time
from .fields import raw_of
from .foreign_messages import is_foreign_part, is_thread_message
from .source import loads

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
NOT_ANTHROPIC = frozenset(("tool_calls", "function_call", "tool_call_id"))
"""Keys of messages in OpenAI's shape."""
OPENAI_PARTS = ("image_url", "input_text", "output_text", "input_image", "input_audio", "input_file", "refusal", "tool-call", "tool-result")
"""Types of content parts that are not blocks of Anthropic's."""
TOOL_BLOCKS = ("tool_use", "tool_result")
RESPONSE_KEYS = (
    *("id", "type", "model", "usage", "stop_reason", "stop_sequence", "stop_details", "container", "context_management"),
)  # fmt: skip
"""Keys that an assistant message has in a response and may not have in a request."""


def is_messages(value: JSON) -> bool:
    """Whether a value is a message list in Anthropic's shape: most items are messages, and none has a role, a key or a part
    of OpenAI's. With user and assistant roles alone, text-only lists count too; with a system role among them, only where
    tool_use or tool_result blocks show whose shape it is."""
    if not isinstance(value, list):
        return False
    good = 0
    system = tools = False
    for message in value:
        if not isinstance(message, dict):
            continue
        if is_foreign(message):
            return False
        good += is_message(message) and _is_of_blocks(message)
        system = system or message.get("role") == "system"
        tools = tools or has_tool_blocks(message)
    return good * 2 > len(value) and (tools or not system)


def is_message(value: JSON) -> bool:
    """Whether one value is a message that Anthropic's API could have been sent."""
    return isinstance(value, dict) and "content" in value and value.get("role") in tuple(ROLES) and not is_foreign(value)


def is_foreign(message: Mapping[str, JSON]) -> bool:
    """Whether a message shows that its list has another shape: OpenAI's, or that of Cline and Roo, which have a reader."""
    role, content, stamp = message.get("role"), message.get("content"), message.get("ts")
    if isinstance(role, str) and role not in ROLES:
        return True
    if (isinstance(stamp, int | float) and stamp > 1e11) or isinstance(message.get("modelInfo"), dict):
        return True
    parts = content if isinstance(content, list) else []
    if any(message.get(key) for key in NOT_ANTHROPIC):
        return True
    if is_thread_message(message):
        return True
    return any(isinstance(part, dict) and (part.get("type") in OPENAI_PARTS or is_foreign_part(part)) for part in parts)


def _is_of_blocks(message: Mapping[str, JSON]) -> bool:
    """Whether a content that is a list has nothing but objects in it, and its text parts a text."""
    content = message.get("content")
    return not isinstance(content, list) or all(
        isinstance(part, dict) and (part.get("type") != "text" or isinstance(part.get("text"), str)) for part in content
    )


def has_tool_blocks(message: Mapping[str, JSON]) -> bool:
    """Whether a message holds a call or a result of Anthropic's kind."""
    content = message.get("content")
    return isinstance(content, list) and any(isinstance(part, dict) and part.get("type") in TOOL_BLOCKS for part in content)


def decode(message: JSON, ids: Ids, number: int, raw: msgspec.Raw = NO_RAW, time: JSON = None) -> Entry | None:
    """A message as an entry; None where it is no object with a role that is known. ``number`` is its line or place."""
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(message, dict) or not isinstance(role, str) or role not in ROLES:
        return None
    extra: Object = {key: value for key, value in message.items() if key not in ("role", "content")}
    blocks, bare = _decode_content(message, extra)
    api_id, model = message.get("id"), message.get("model")
    answered = role == "assistant"
    if answered:
        raw = _set_aside(extra, raw)
    return Entry(
        id=ids(api_id if not answered else None),
        kind=ROLES[role],
        blocks=blocks,
        time=parse_time(time if time is not None else message.get("timestamp", message.get("ts"))),
        api_id=api_id if answered and isinstance(api_id, str) and api_id else None,
        usage=_usage(message.get("usage")) if answered else None,
        model=model if answered and isinstance(model, str) else None,
        meta=role == "user" and is_harness(blocks),
        bare=bare,
        extra=extra,
        line=number,
        raw=raw,
    )


def _set_aside(extra: Object, raw: msgspec.Raw) -> msgspec.Raw:
    """Move the keys that only a response has out of ``extra``; the record that holds them, which is ``raw`` if there is one.
    Numbers that JSON text can't give back stay where they are."""
    own: Object = {key: extra[key] for key in RESPONSE_KEYS if key in extra}
    if not own:
        return raw
    if not raw:
        try:
            raw = raw_of(own)
            if loads(bytes(raw)) != own:
                return NO_RAW
        except (OverflowError, RecursionError, ValueError):
            return NO_RAW
    for key in own:
        del extra[key]
    return raw


def _usage(data: JSON) -> Usage | None:
    try:
        return anthropic_usage(data)
    except OverflowError:  # an infinite number of tokens
        return None


def _decode_content(message: Mapping[str, JSON], extra: Object) -> tuple[tuple[Block, ...], bool]:
    if "content" not in message:
        return (), True
    content = message["content"]
    if isinstance(content, str):
        return (Text(content),), True
    if isinstance(content, list):
        return tuple(decode_block(part) for part in content), False
    if content is None:
        extra["content"] = None
        return (), False
    return (Opaque(content),), True


def encode(entry: Entry) -> Object:
    """An entry as the message it came from, the inverse of ``decode``; of another format's entry, the message it makes."""
    out: Object = {"role": SHOWN_AS[entry.kind]}
    match entry.blocks:
        case () if entry.bare:
            pass
        case (Text(text, extra),) if entry.bare and not extra:
            out["content"] = text
        case (Opaque(data),) if entry.bare:
            out["content"] = data
        case blocks:
            out["content"] = [encode_block(block) for block in blocks]
    return {**out, **(_response_keys(entry) if entry.kind == "assistant" else {}), **entry.extra}


def _response_keys(entry: Entry) -> Object:
    try:
        record = loads(bytes(entry.raw) or b"null")
    except ValueError:
        return {}
    message = record.get("message", record) if isinstance(record, dict) else None
    return {key: message[key] for key in RESPONSE_KEYS if key in message} if isinstance(message, dict) else {}


def encode_messages(entries: Iterable[Entry]) -> list[Object]:
    """The messages of entries in order; notes and boundaries are none."""
    return [encode(entry) for entry in entries if entry.kind in SHOWN_AS]
