"""One OpenAI Chat message as a message here, and back.

``encode(decode(x)) == [x]`` for every message of a known role: what is not modelled stays in ``extra`` of the message or of
the block it belongs to. A ``tool`` message is a user message that holds one ``ToolResult``. Calls that are not well formed,
and content that is neither text nor a list, stay in ``extra`` as they came. A message that holds several results, as other
formats write them, goes out as several ``tool`` messages and one with the rest.

Some servers (Ollama) give calls no id and answers no ``tool_call_id``. A call has a made-up one then, and ``extra`` says
what stood there: ``"id": []`` nothing, ``"id": [x]`` x. ``PairCalls`` makes the ids unique in a conversation and gives
them to the answers, whose ``extra`` says the same under ``tool_call_id``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..core.messages import (
    JSON,
    Block,
    Document,
    Image,
    Message,
    Object,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    encode_block,
)
from .fields import text_at, without
from .openai_parts import decode_arguments, encode_arguments, image_source, source_url

ROLES: Mapping[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "user",
    "function": "user",
}
_THOUGHTS = ("reasoning_content", "reasoning")
"""Keys under which servers give the thinking as text; the first is the common one."""


def is_message(data: JSON) -> bool:
    """Whether a value is a Chat message: an object with a known role."""
    role = data.get("role") if isinstance(data, dict) else None
    return isinstance(role, str) and role in ROLES


# --- in


def decode(data: Object) -> Message:
    """A Chat message. Raises ValueError where its role is none of the API's."""
    wire_role = data.get("role")
    if not isinstance(wire_role, str) or wire_role not in ROLES:
        raise ValueError(f"a message whose role is {wire_role!r}, not one of {', '.join(ROLES)}")
    if wire_role in ("tool", "function"):
        return _decode_result(data, wire_role)
    role = ROLES[wire_role]
    extra = without(data, "role")
    if wire_role != role:
        extra["role"] = wire_role
    blocks: list[Block] = []
    if role == "assistant":
        blocks += _take_thinking(extra)
    bare = _take_content(extra, blocks)
    if role == "assistant":
        if isinstance(refusal := extra.get("refusal"), str) and refusal:
            blocks.append(Text(refusal, {"type": "message_refusal"}))
            del extra["refusal"]
        blocks += _take_calls(extra)
    return Message(role, tuple(blocks), bare, extra)


def _take_content(extra: Object, blocks: list[Block]) -> bool:
    """Move the content out of ``extra``; what makes no block (null, empty) stays there. Whether it was a plain string."""
    content = extra.get("content")
    if isinstance(content, str) and content:
        blocks.append(Text(content))
    elif isinstance(content, list) and content:
        blocks += [decode_part(part) for part in content]
    else:
        return isinstance(content, str)
    del extra["content"]
    return isinstance(content, str)


def _take_thinking(extra: Object) -> list[Block]:
    for key in _THOUGHTS:
        text = extra.get(key)
        if isinstance(text, str) and text:
            del extra[key]
            return [Thinking(text, "", {} if key == _THOUGHTS[0] else {"field": key})]
    return []


def _take_calls(extra: Object) -> list[Block]:
    """Move the calls out of ``extra``, all or, where one is not well formed, none."""
    blocks: list[Block] = []
    calls = extra.get("tool_calls")
    if isinstance(calls, list) and calls:
        decoded = [_decode_call(call, f"call-{place}") for place, call in enumerate(calls, 1)]
        found = [call for call in decoded if call is not None]
        if len(found) == len(calls):
            blocks += found
            del extra["tool_calls"]
    call = extra.get("function_call")
    if isinstance(call, dict) and text_at(call, "name") and "arguments" in call and "type" not in call:
        input, kept = decode_arguments(call["arguments"])
        # The older API pairs by the function's name.
        name = text_at(call, "name")
        blocks.append(ToolUse(name, name, input, {"type": "function_call", **without(call, "name", "arguments"), **kept}))
        del extra["function_call"]
    return blocks


def _decode_call(call: JSON, made: str) -> ToolUse | None:
    """A call of the current API; None where it is not well formed. ``extra["type"]``: None where the call had none.
    ``made``: its id where it has none of its own."""
    if not isinstance(call, dict):
        return None
    function, custom = call.get("function"), call.get("custom")
    extra = without(call, "id", "function", "custom")
    id = call.get("id")
    if not isinstance(id, str) or not id:
        extra["id"] = [call["id"]] if "id" in call else []
        id = made
    if isinstance(custom, dict) and custom.keys() == {"name", "input"} and function is None:
        ready = call.get("type") == "custom" and isinstance(custom["name"], str) and "function" not in call
        return ToolUse(id, text_at(custom, "name"), custom["input"], extra) if ready else None
    if not isinstance(function, dict) or "arguments" not in function or "custom" in call:
        return None
    name = function.get("name")
    if not isinstance(name, str) or ("type" in call and call["type"] in (None, "custom", "function_call")):
        return None
    if extra.get("type") == "function":
        del extra["type"]
    else:
        extra.setdefault("type", None)
    input, kept = decode_arguments(function["arguments"])
    rest = {**without(function, "name", "arguments"), **kept}
    return ToolUse(id, name, input, {**extra, "function": rest} if rest else extra)


class PairCalls:
    """Gives ids to the calls of one conversation that came without, and to what answers them: by the tool's name where
    the answer says it, else in order."""

    def __init__(self) -> None:
        self._made = 0
        self._open: list[ToolUse] = []

    def __call__(self, message: Message) -> Message:
        """The next message of the conversation, with ids."""
        blocks = tuple([self._block(block) for block in message.blocks])
        return message if blocks == message.blocks else msgspec.structs.replace(message, blocks=blocks)

    def _block(self, block: Block) -> Block:
        match block:
            case ToolUse(extra={"id": list()}):
                self._made += 1
                named = msgspec.structs.replace(block, id=f"call-{self._made}")
                self._open.append(named)
                return named
            case ToolResult(tool_use_id="") if self._open and block.extra.get("role") != "function":
                return self._answer(block)
            case _:
                return block

    def _answer(self, block: ToolResult) -> ToolResult:
        name = block.extra.get("tool_name", block.extra.get("name"))
        call = next((call for call in self._open if call.name == name), self._open[0])
        self._open.remove(call)
        return msgspec.structs.replace(block, tool_use_id=call.id, extra={"tool_call_id": [], **block.extra})


def _decode_result(data: Object, role: str) -> Message:
    """A tool's answer. The keys beside its content belong to the result."""
    key = "tool_call_id" if role == "tool" else "name"
    id, content = data.get(key), data.get("content")
    rest = without(data, "role", "content")
    if isinstance(id, str) and id:
        del rest[key]
    else:
        id = ""
        if isinstance(rest.get(key), list):
            rest[key] = [rest[key]]
    if role == "function":
        rest["role"] = role
    shown: str | tuple[Block, ...] | None = None
    if isinstance(content, str):
        shown = content
    elif isinstance(content, list):
        shown = tuple(decode_part(part) for part in content)
    elif "content" in data:
        rest["content"] = content
    return Message("user", (ToolResult(id, shown, False, rest),))


def decode_part(part: JSON) -> Block:
    """A part of a message's content; one that is not modelled stays ``Opaque``."""
    if not isinstance(part, dict):
        return Opaque(part)
    match part:
        case {"type": "text", "text": str(text)}:
            return Text(text, without(part, "type", "text"))
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text, without(part, "refusal"))
        case {"type": "image_url", "image_url": dict(image)} if isinstance(url := image.get("url"), str):
            rest = without(image, "url")
            extra = without(part, "type", "image_url")
            return Image(image_source(url), {**extra, "image_url": rest} if rest else extra)
        case {"type": "image_url", "image_url": str(url)}:
            return Image(image_source(url), {**without(part, "type"), "image_url": None})
        case {"type": "file", "file": dict(file)}:
            return _decode_file(part, file)
        case _:
            return Opaque(part)


def _decode_file(part: Object, file: Object) -> Block:
    data, id = file.get("file_data"), file.get("file_id")
    if isinstance(data, str) and (source := image_source(data))["type"] == "base64":
        return Document(source, _file_extra(part, file, "file_data"))
    if isinstance(id, str):
        return Document({"type": "file", "file_id": id}, _file_extra(part, file, "file_id"))
    return Opaque(part)


def _file_extra(part: Object, file: Object, key: str) -> Object:
    rest = without(file, key)
    extra = without(part, "type", "file")
    return {**extra, "file": rest} if rest else extra


# --- out


def encode(message: Message) -> list[Object]:
    """The Chat messages of a message: one for each tool result, in order, and one for all the rest."""
    out: list[Object] = [_encode_result(block) for block in message.blocks if isinstance(block, ToolResult)]
    rest: list[Block] = [block for block in message.blocks if not isinstance(block, ToolResult)]
    if rest or not out:
        out.append(_encode_rest(message, rest))
    return out


def _encode_result(block: ToolResult) -> Object:
    key = "name" if block.extra.get("role") == "function" else "tool_call_id"
    out: Object = {"role": "tool"}
    if block.tool_use_id:
        out[key] = block.tool_use_id
    out |= block.extra
    if isinstance(was := block.extra.get(key), list):
        del out[key]
        out |= {key: was[0]} if was else {}
    if block.content is not None:
        out["content"] = block.content if isinstance(block.content, str) else [encode_part(part) for part in block.content]
    return out


def _encode_rest(message: Message, blocks: list[Block]) -> Object:
    out: Object = {"role": message.role, **message.extra}
    parts: list[Block] = []
    calls: list[JSON] = []
    for block in blocks:
        match block:
            case Thinking(text, _, extra):
                key = extra.get("field") or _THOUGHTS[0]
                out[str(key)] = text
            case Text(text, {"type": "message_refusal"}):
                out["refusal"] = text
            case ToolUse(extra={"type": "function_call"}):
                out["function_call"] = _encode_function_call(block)
            case ToolUse():
                calls.append(_encode_call(block))
            case _:
                parts.append(block)
    match parts:
        case []:
            pass
        case [Text(text, extra)] if message.bare and not extra:
            out["content"] = text
        case _:
            out["content"] = [encode_part(part) for part in parts]
    if calls:
        out["tool_calls"] = calls
    return out


def _encode_function_call(block: ToolUse) -> Object:
    arguments = block.extra["arguments"] if "arguments" in block.extra else encode_arguments(block.input)
    return {"name": block.name, "arguments": arguments, **without(block.extra, "type", "arguments")}


def _encode_call(block: ToolUse) -> Object:
    extra = dict(block.extra)
    kind = extra.pop("type", "function")
    was = extra.pop("id", None)
    out: Object = {"id": block.id}
    if isinstance(was, list):
        out = {"id": was[0]} if was else {}
    if kind is not None:
        out["type"] = kind
    if kind == "custom":
        return {**out, "custom": {"name": block.name, "input": block.input}, **extra}
    rest = extra.pop("function", None)
    function: Object = {"name": block.name}
    kept = rest if isinstance(rest, dict) else {}
    if "arguments" not in kept:
        function["arguments"] = encode_arguments(block.input)
    return {**out, "function": {**function, **kept}, **extra}


def encode_part(block: Block) -> JSON:
    """A content part, the inverse of ``decode_part``. A block that has no Chat shape keeps its own."""
    match block:
        case Text(text, extra):
            return {"refusal": text, **extra} if extra.get("type") == "refusal" else {"type": "text", "text": text, **extra}
        case Image(source, extra) if (url := source_url(source)) is not None:
            if "image_url" in extra and extra["image_url"] is None:
                return {"type": "image_url", **extra, "image_url": url}
            detail = extra.get("image_url")
            return {"type": "image_url", **extra, "image_url": {"url": url, **(detail if isinstance(detail, dict) else {})}}
        case Document(source, extra):
            url = source_url(source)
            held: Object = {"file_data": url} if url is not None else {"file_id": source.get("file_id")}
            rest = extra.get("file")
            return {"type": "file", **extra, "file": {**held, **(rest if isinstance(rest, dict) else {})}}
        case _:
            return encode_block(block)
