"""What a message is made of: typed blocks, and everything else kept as it came (I6).

The shape is Anthropic's, which is the richest of the providers' (facts: its Messages API reference); other
formats decode to it. Each block holds what fivefold reasons about in named fields; every other key of the
source object stays in ``extra`` and goes back out with it. A block of a kind not known here is an
``Opaque`` that holds its source object whole. So ``encode_block(decode_block(x)) == x`` for every object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    JSON: TypeAlias = bool | int | float | str | list["JSON"] | dict[str, "JSON"] | None
    Object: TypeAlias = dict[str, JSON]
else:  # msgspec builds its codecs from these and knows no recursive alias
    JSON = Any
    Object = dict[str, Any]
Role: TypeAlias = Literal["user", "assistant", "system"]


class Text(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    """Plain text."""

    text: str
    extra: Object = {}


class Thinking(msgspec.Struct, frozen=True, tag="thinking", omit_defaults=True):
    """A thinking block. ``text`` may be empty and must still go back with its ``signature`` (I2)."""

    text: str = ""
    signature: str = ""
    extra: Object = {}


class RedactedThinking(msgspec.Struct, frozen=True, tag="redacted_thinking", omit_defaults=True):
    """Thinking that the provider has encrypted."""

    data: str = ""
    extra: Object = {}


class ToolUse(msgspec.Struct, frozen=True, tag="tool_use", omit_defaults=True):
    """A call of a client-side tool. ``input`` is normally an object; a malformed one is kept as its text."""

    id: str
    name: str
    input: JSON = None
    extra: Object = {}


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result", omit_defaults=True):
    """The answer to a ``ToolUse``. ``content`` is text, a list of blocks, or None where the key was absent."""

    tool_use_id: str
    content: str | tuple[Block, ...] | None = None
    is_error: bool = False
    extra: Object = {}


class ServerToolUse(msgspec.Struct, frozen=True, tag="server_tool_use", omit_defaults=True):
    """A call that the provider itself performs; ``kind`` is its type on the wire (``server_tool_use``, ``mcp_tool_use``)."""

    id: str
    name: str
    input: JSON = None
    kind: str = "server_tool_use"
    extra: Object = {}


class ServerToolResult(msgspec.Struct, frozen=True, tag="server_tool_result", omit_defaults=True):
    """The answer to a ``ServerToolUse``, in the same assistant message; ``kind`` as on the wire (``web_search_tool_result`` …)."""

    tool_use_id: str
    content: JSON = None
    kind: str = "mcp_tool_result"
    extra: Object = {}


class Image(msgspec.Struct, frozen=True, tag="image", omit_defaults=True):
    """An image; ``source`` as at Anthropic: {type: base64, media_type, data} | {type: url, url} | {type: file, file_id}."""

    source: Object
    extra: Object = {}


class Document(msgspec.Struct, frozen=True, tag="document", omit_defaults=True):
    """A document (PDF or text); ``source`` as at Anthropic."""

    source: Object
    extra: Object = {}


class Compaction(msgspec.Struct, frozen=True, tag="compaction", omit_defaults=True):
    """A provider's own compaction block: signed or encrypted, sent back exactly (E7, L10). ``data`` is the whole object."""

    data: Object


class Opaque(msgspec.Struct, frozen=True, tag="opaque", omit_defaults=True):
    """A block of a kind not modelled here, verbatim."""

    data: JSON


Block: TypeAlias = (
    Text | Thinking | RedactedThinking | ToolUse | ToolResult | ServerToolUse | ServerToolResult | Image | Document | Compaction | Opaque
)


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message as it is sent. ``bare``: its content was, and is encoded as, one plain string."""

    role: Role
    blocks: tuple[Block, ...]
    bare: bool = False
    extra: Object = {}


def _rest(data: Mapping[str, JSON], *known: str) -> Object:
    """What of an object is not modelled; the common case (nothing) makes no dictionary comprehension."""
    if len(data) == len(known):
        return {}
    return {key: value for key, value in data.items() if key not in known}


def decode_block(data: JSON) -> Block:
    """A block from its object on the wire; anything that does not have the shape of its kind stays ``Opaque``."""
    if not isinstance(data, dict):
        return Opaque(data)
    return _decode_common(data) or _decode_any(data)


def _decode_common(data: Object) -> Block | None:
    """The four kinds that make up nearly all of a session, without further keys: a third faster than a pattern."""
    size, get = len(data), data.get
    match get("type"):
        case "text" if size == 2:
            text = get("text")
            return Text(text) if isinstance(text, str) else None
        case "tool_use" if size == 4 and "input" in data:
            id, name = get("id"), get("name")
            return ToolUse(id, name, data["input"]) if isinstance(id, str) and isinstance(name, str) else None
        case "tool_result" if size == 3 or (size == 4 and get("is_error") is True):
            id, content = get("tool_use_id"), get("content")
            return ToolResult(id, content, size == 4) if isinstance(id, str) and isinstance(content, str) else None
        case "thinking" if size == 3:
            text, signature = get("thinking"), get("signature")
            return Thinking(text, signature) if isinstance(text, str) and isinstance(signature, str) and signature else None
        case _:
            return None


def _decode_any(data: Object) -> Block:
    kind = data.get("type")
    match data:
        case {"type": "text", "text": str(text)}:
            return Text(text, _rest(data, "type", "text"))
        case {"type": "tool_use", "id": str(id), "name": str(name), "input": input}:
            return ToolUse(id, name, input, _rest(data, "type", "id", "name", "input"))
        case {"type": "tool_result", "tool_use_id": str(id)}:
            return _decode_result(data, id)
        case {"type": "thinking", "thinking": str(text)} if isinstance(data.get("signature", ""), str):
            return _decode_thinking(data, text)
        case {"type": "redacted_thinking", "data": str(text)}:
            return RedactedThinking(text, _rest(data, "type", "data"))
        case {"type": "image", "source": dict(source)}:
            return Image(source, _rest(data, "type", "source"))
        case {"type": "document", "source": dict(source)}:
            return Document(source, _rest(data, "type", "source"))
        case {"type": "server_tool_use" | "mcp_tool_use", "id": str(id), "name": str(name), "input": input}:
            return ServerToolUse(id, name, input, str(kind), _rest(data, "type", "id", "name", "input"))
        case {"type": "compaction"}:
            return Compaction(data)
        case {"type": str(), "tool_use_id": str(id), "content": content} if str(kind).endswith("_tool_result"):
            return ServerToolResult(id, content, str(kind), _rest(data, "type", "tool_use_id", "content"))
        case _:
            return Opaque(data)


def _decode_thinking(data: Object, text: str) -> Block:
    signature = data.get("signature")
    if not isinstance(signature, str):
        return Thinking(text, "", _rest(data, "type", "thinking"))
    # An empty signature is kept apart from an absent one, so that the object goes out as it came.
    extra = _rest(data, "type", "thinking", "signature")
    return Thinking(text, signature, extra if signature else {**extra, "signature": ""})


def _decode_result(data: Object, id: str) -> Block:
    content = data.get("content")
    known = ["type", "tool_use_id"]
    blocks: str | tuple[Block, ...] | None = None
    if isinstance(content, str):
        blocks = content
        known.append("content")
    elif isinstance(content, list):
        blocks = tuple(decode_block(part) for part in content)
        known.append("content")
    error = data.get("is_error")
    if error is True:
        known.append("is_error")
    return ToolResult(id, blocks, error is True, _rest(data, *known))


def encode_block(block: Block) -> JSON:
    """A block as its object on the wire, the inverse of ``decode_block``."""
    match block:
        case Text(text, extra):
            return {"type": "text", "text": text, **extra}
        case ToolUse(id, name, input, extra):
            return {"type": "tool_use", "id": id, "name": name, "input": input, **extra}
        case ToolResult():
            return _encode_result(block)
        case Thinking(text, signature, extra):
            signed: Object = {"signature": signature} if signature else {}
            return {"type": "thinking", "thinking": text, **signed, **extra}
        case RedactedThinking(data, extra):
            return {"type": "redacted_thinking", "data": data, **extra}
        case Image(source, extra):
            return {"type": "image", "source": source, **extra}
        case Document(source, extra):
            return {"type": "document", "source": source, **extra}
        case ServerToolUse(id, name, input, kind, extra):
            return {"type": kind, "id": id, "name": name, "input": input, **extra}
        case ServerToolResult(id, content, kind, extra):
            return {"type": kind, "tool_use_id": id, "content": content, **extra}
        case Compaction(data) | Opaque(data):
            return data


def _encode_result(block: ToolResult) -> Object:
    out: Object = {"type": "tool_result", "tool_use_id": block.tool_use_id}
    if isinstance(block.content, str):
        out["content"] = block.content
    elif block.content is not None:
        out["content"] = [encode_block(part) for part in block.content]
    if block.is_error:
        out["is_error"] = True
    out.update(block.extra)
    return out


def decode_content(content: JSON) -> tuple[tuple[Block, ...], bool]:
    """The blocks of a message's ``content`` and whether it was a bare string."""
    if isinstance(content, str):
        return (Text(content),), True
    if isinstance(content, list):
        return tuple([decode_block(part) for part in content]), False  # a list first: a third faster
    return (() if content is None else (Opaque(content),)), False


def encode_message(message: Message) -> Object:
    """A message as its object on the wire."""
    match message.blocks:
        case (Text(text, extra),) if message.bare and not extra:
            content: JSON = text
        case blocks:
            content = [encode_block(block) for block in blocks]
    return {"role": message.role, "content": content, **message.extra}


def result_text(block: ToolResult) -> str:
    """The text of a tool result, its parts joined by line ends; media and unknown parts say nothing here."""
    if isinstance(block.content, str):
        return block.content
    return "\n".join(part.text for part in block.content or () if isinstance(part, Text))


def is_thinking(block: Block) -> bool:
    """Whether a block is thinking, readable or redacted."""
    return isinstance(block, Thinking | RedactedThinking)
