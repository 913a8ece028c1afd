"""One serialised LangChain message as a message here, and back.

Three envelopes: ``dumps`` (``{lc, type: "constructor", id: […, "AIMessage"], kwargs}``), ``messages_to_dict``
(``{type: "ai", data}``) and a model dump, as in LangGraph's states (``{type: "ai", content, …}``). The envelope and every
key that is not modelled stay in ``extra``, so ``encode(decode(x)) == x``. LangChain writes the calls of a message twice where
the provider's content has them, too: they are one block here, and go out twice again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..core.messages import JSON, Block, Image, Message, Object, Role, Text, Thinking, ToolResult, ToolUse, decode_block, encode_block
from .fields import list_at, object_at, text_at, without
from .openai_chat_messages import decode_part as decode_chat_part
from .openai_chat_messages import encode_part as encode_chat_part

ROLES: Mapping[str, Role] = {"human": "user", "ai": "assistant", "system": "system", "tool": "user", "function": "user"}
_CHAT_ROLES: Mapping[str, Role] = {"user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "system": "system"}
_ABSENT: Object = {"absent": True}
"""For ``tool_calls``: the message had none of its own, though its content has calls."""
_CALL_TYPE: Object = {"type": "tool_call"}


class Parts(NamedTuple):
    """A message taken out of its envelope. ``kind``: human, ai, tool, system, function, chat, remove …"""

    kind: str
    body: Object
    envelope: Object


def unwrap(data: JSON) -> Parts | None:
    """The kind, body and envelope of a message; None where it is none."""
    if not isinstance(data, dict):
        return None
    kind = data.get("type")
    if not isinstance(kind, str):
        return None
    if data.get("lc") == 1 and kind == "constructor":
        name = (list_at(data, "id") or [""])[-1]
        body = data.get("kwargs")
        if not isinstance(name, str) or not isinstance(body, dict) or "content" not in body:
            return None
        return Parts(_kind_of(name), body, without(data, "kwargs"))
    body = data.get("data")
    if "lc" in data or "kwargs" in data:
        return None
    if isinstance(body, dict) and "content" in body and "content" not in data:
        return Parts(_kind_of(kind), body, without(data, "data"))
    return Parts(_kind_of(kind), data, {}) if "content" in data and "data" not in data else None


def _kind_of(name: str) -> str:
    """``AIMessageChunk``, ``AIMessage`` and ``ai`` are one."""
    return name.removesuffix("Chunk").removesuffix("Message").lower() if name.endswith(("Message", "MessageChunk")) else name


def role_of(parts: Parts) -> Role | None:
    """Who speaks; None for what is no message (``remove``)."""
    if parts.kind == "chat":
        return _CHAT_ROLES.get(text_at(parts.body, "role"))
    return ROLES.get(parts.kind)


# --- in


def decode(data: JSON) -> Message:
    """A serialised message. Raises ValueError where it is none, or of a kind that says nothing."""
    parts = unwrap(data)
    role = None if parts is None else role_of(parts)
    if parts is None or role is None:
        raise ValueError("not a LangChain message" if parts is None else f"a LangChain message of the kind {parts.kind!r}")
    if parts.kind in ("tool", "function"):
        result, kept = _decode_result(parts)
        return Message(role, (result,), False, _enveloped(parts, kept))
    kept = dict(parts.body)
    blocks: list[Block] = []
    bare = _take_content(kept, blocks)
    if role == "assistant":
        _take_calls(kept, blocks)
    return Message(role, tuple(blocks), bare, _enveloped(parts, kept))


def _enveloped(parts: Parts, kept: Object) -> Object:
    if "lc" in parts.envelope:
        return {**parts.envelope, "kwargs": kept}
    return {**parts.envelope, "data": kept} if parts.envelope else kept


def _take_content(body: Object, blocks: list[Block]) -> bool:
    """Move the content out of the body; null and what is empty stay there. Whether it was a plain string."""
    content = body.get("content")
    if isinstance(content, str) and content:
        blocks.append(Text(content))
    elif isinstance(content, list) and content:
        blocks += [_decode_part(part) for part in content]
    else:
        return isinstance(content, str)
    del body["content"]
    return isinstance(content, str)


def _decode_part(part: JSON) -> Block:
    """A part of a content list: the provider's own shape, LangChain's, or a plain string (``extra["type"]`` is None)."""
    if isinstance(part, str):
        return Text(part, {"type": None})
    if not isinstance(part, dict):
        return decode_block(part)
    match part:
        case {"type": "image_url"}:
            image = decode_chat_part(part)
            return Image(image.source, {**image.extra, "type": "image_url"}) if isinstance(image, Image) else image
        case {"type": "reasoning", "reasoning": str(text)}:
            return Thinking(text, "", without(part, "reasoning"))
        case {"type": "tool_call", "id": str(id), "name": str(name), "args": args}:
            return ToolUse(id, name, args, without(part, "id", "name", "args"))
        case _:
            return decode_block(part)


def _take_calls(body: Object, blocks: list[Block]) -> None:
    """The calls that the content does not have become blocks; what can be built again from the blocks leaves the body."""
    calls = body.get("tool_calls")
    given = calls if isinstance(calls, list) else []
    known = {block.id for block in blocks if isinstance(block, ToolUse)}
    for call in given:
        if not isinstance(call, dict):
            continue
        id, name = call.get("id"), call.get("name")
        if isinstance(id, str) and isinstance(name, str) and id not in known:
            blocks.append(ToolUse(id, name, call.get("args"), {"call": without(call, "id", "name", "args")}))
    built = _calls_of(blocks)
    if calls == built and built:
        del body["tool_calls"]
    elif "tool_calls" not in body and built:
        body["tool_calls"] = _ABSENT


def _decode_result(parts: Parts) -> tuple[ToolResult, Object]:
    """A tool's answer, and what of its body stays with the message. The older kind names its tool only."""
    body = parts.body
    key = "tool_call_id" if parts.kind == "tool" else "name"
    id, content = body.get(key), body.get("content")
    kept = without(body, "content")
    if isinstance(id, str) and id:
        del kept[key]
    shown: str | tuple[Block, ...] | None = None
    if isinstance(content, str):
        shown = content
    elif isinstance(content, list):
        shown = tuple(_decode_part(part) for part in content)
    elif "content" in body:
        kept["content"] = content
    return ToolResult(id if isinstance(id, str) else "", shown, body.get("status") == "error"), kept


# --- out


def encode(message: Message) -> Object:
    """A message in the envelope it came in; in that of ``messages_to_dict`` where it had none."""
    extra = message.extra
    if "lc" in extra:
        return {**extra, "kwargs": _encode_body(message, object_at(extra, "kwargs"), _kind_of(str((list_at(extra, "id") or [""])[-1])))}
    if "type" in extra and "data" not in extra:
        return _encode_body(message, extra, _kind_of(text_at(extra, "type")))
    kind = text_at(extra, "type") or _kind_for(message)
    return {"type": kind, **extra, "data": _encode_body(message, object_at(extra, "data"), _kind_of(kind))}


def _kind_for(message: Message) -> str:
    if any(isinstance(block, ToolResult) for block in message.blocks):
        return "tool"
    return {"user": "human", "assistant": "ai", "system": "system"}[message.role]


def _encode_body(message: Message, kept: Object, kind: str) -> Object:
    out = dict(kept)
    if kind in ("tool", "function"):
        for block in message.blocks:
            if isinstance(block, ToolResult):
                return _encode_result(block, out, kind)
        return out
    own = [block for block in message.blocks if not (isinstance(block, ToolUse) and "call" in block.extra)]
    match own:
        case []:
            out.setdefault("content", "")
        case [Text(text, extra)] if message.bare and not extra:
            out["content"] = text
        case _:
            out["content"] = [_encode_part(block) for block in own]
    if out.get("tool_calls") == _ABSENT:
        del out["tool_calls"]
    elif "tool_calls" not in out and (calls := _calls_of(message.blocks)):
        out["tool_calls"] = calls
    return out


def _calls_of(blocks: list[Block] | tuple[Block, ...]) -> list[JSON]:
    """LangChain's list of the calls in a message."""
    calls: list[JSON] = []
    for block in blocks:
        if isinstance(block, ToolUse):
            rest = block.extra.get("call", _CALL_TYPE)
            calls.append({"name": block.name, "args": block.input, "id": block.id, **(rest if isinstance(rest, dict) else {})})
    return calls


def _encode_result(block: ToolResult, out: Object, kind: str) -> Object:
    if block.tool_use_id:
        out["tool_call_id" if kind == "tool" else "name"] = block.tool_use_id
    if block.content is not None:
        out["content"] = block.content if isinstance(block.content, str) else [_encode_part(part) for part in block.content]
    if block.is_error:
        out.setdefault("status", "error")
    return out


def _encode_part(block: Block) -> JSON:
    match block:
        case Text(text, {"type": None}):
            return text
        case Image(extra={"type": "image_url"}):
            return encode_chat_part(block)
        case Thinking(text, _, {"type": "reasoning", **rest}):
            return {"type": "reasoning", "reasoning": text, **rest}
        case ToolUse(id, name, input, {"type": "tool_call", **rest}):
            return {"type": "tool_call", "id": id, "name": name, "args": input, **rest}
        case _:
            return encode_block(block)
