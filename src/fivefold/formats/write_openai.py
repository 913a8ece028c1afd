"""A conversation's view as OpenAI Chat Completions messages: ``{"tools"?, "messages"}`` (Z4).

The system prompt is a system message, a call has its arguments as JSON text, and its results are ``tool`` messages right
behind it. What this API has no place for:

- images and documents in a tool's result stand in the user message behind the results, the result says that they do;
- in an assistant's message a text says what was there; so too for media that another provider holds (file ids, paths);
- a document that is text becomes text; a PDF is a ``file`` part;
- unknown blocks of another provider become text, its thinking is left out, ``is_error`` is not said;
- ids over 40 characters are shortened by a stable rule.

A conversation that was recorded in this format keeps the keys and parts that fivefold does not model, and its tools as
they came; calls of the older functions API become calls of the present one.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import msgspec

from ..core.economics import MediaLimits
from ..core.entries import Entry, Head
from ..core.messages import (
    JSON,
    Block,
    Document,
    Image,
    Message,
    Object,
    Text,
    ToolResult,
    ToolUse,
    decode_block,
    is_thinking,
)
from ..core.repair import Request, outgoing
from ..core.turns import json_text
from ..core.view import View
from .fields import object_at, without
from .openai_chat_messages import encode
from .openai_parts import compact_json, source_url
from .write_common import to_json, tools_of, with_system

WIRE = "openai-chat"
MAX_ID = 40
"""Characters of a call's id that the API takes."""
NO_LIMITS = MediaLimits(max_items=10**9, max_side=10**9, many_items=10**9, many_side=10**9, max_image_bytes=10**9)
"""No limits of this API are known here; Anthropic's do not hold for it."""
BEHIND = "[{what} of this result: in the user message behind]"
OF_RESULT = "[{what} of the result of {id}]"


def render(head: Head, view: View) -> bytes:
    """The messages as one JSON document. Raises InputError where a value in it is nested too deep to write."""
    own = head.wire == WIRE
    entries = with_system(head, view)
    request = outgoing(entries if own else [_unthinking(e) for e in entries], family="other", foreign=not own, limits=NO_LIMITS)
    messages = chat_messages(request, own=own)
    tools = openai_tools(head)
    return to_json({**({"tools": tools} if tools else {}), "messages": messages}) + b"\n"


def chat_messages(request: Request, *, own: bool) -> list[JSON]:
    """A request's messages, its system prompt in front. ``own``: they were recorded in this format."""
    messages: list[JSON] = []
    if request.system:  # it holds text only
        prompt = tuple([block if isinstance(block, Text) else Text(json_text(block)) for block in request.system])
        messages += encode(Message("system", prompt, bare=True))
    writer = _Writer(own)
    for message in request.messages:
        messages += writer.assistant(message) if message.role == "assistant" else writer.user(message)
    return messages


def openai_tools(head: Head) -> list[JSON]:
    """The tools in the shape of Chat Completions: its own as they came."""
    if head.wire == WIRE:
        return list[JSON](head.tools)
    return [{"type": "function", "function": _function(*tool)} for tool in tools_of(head.tools)]


def _function(name: str, description: str, parameters: Object) -> Object:
    said: Object = {"description": description} if description else {}
    return {"name": name, **said, "parameters": parameters}


def _unthinking(entry: Entry) -> Entry:
    """An entry without its thinking, which only the provider that made it can read."""
    blocks = tuple([block for block in entry.blocks if not is_thinking(block)])
    return entry if len(blocks) == len(entry.blocks) else msgspec.structs.replace(entry, blocks=blocks)


def short_id(id: str) -> str:
    """A call's id as the API takes it: a long one keeps its beginning, and a digest keeps it apart from others."""
    return id if len(id) <= MAX_ID else f"{id[: MAX_ID - 13]}_{hashlib.sha256(id.encode()).hexdigest()[:12]}"


class _Answer(NamedTuple):
    """A result that holds text only, and what of it has to stand behind it."""

    result: ToolResult
    media: list[Block]


class _Writer:
    """Messages to Chat messages. ``own``: they were recorded in this format."""

    def __init__(self, own: bool) -> None:
        self.own = own

    def assistant(self, message: Message) -> list[Object]:
        """The one message of an assistant's turn."""
        lost = ("role", "content", "tool_calls", "function_call")
        blocks = [_call(block) if isinstance(block, ToolUse) else _spoken(block) for block in message.blocks]
        for key in ("tool_calls", "function_call"):  # here the reader has left them where they are not well formed
            if message.extra.get(key):
                blocks.append(Text(compact_json(message.extra[key])))
        (out,) = encode(Message("assistant", tuple(blocks), bare=True, extra=without(message.extra, *lost)))
        if "content" in out:
            return [out]
        return [{"role": "assistant", "content": None if "tool_calls" in out else "", **out}]

    def user(self, message: Message) -> list[Object]:
        """The answers of a user's turn, then all else in one message."""
        results: list[Block] = []
        rest: list[Block] = []
        for block in message.blocks:
            if isinstance(block, ToolResult):
                answer, media = self._result(block)
                results.append(answer)
                rest += media
        for block in message.blocks:
            if not isinstance(block, ToolResult):
                rest += self._heard(block)
        extra = without(message.extra, "role", "content") if rest else {}
        return encode(Message("user", (*results, *rest), bare=True, extra=extra))

    def _result(self, block: ToolResult) -> _Answer:
        extra = without(block.extra, "role", "content", "tool_call_id", "type", "is_error")
        id = short_id(block.tool_use_id)
        if not isinstance(block.content, tuple):
            return _Answer(ToolResult(id, block.content or "", False, extra), [])
        texts: list[Block] = []
        media: list[Block] = []
        for part in [heard for told in block.content for heard in self._heard(told)]:
            if isinstance(part, Text):
                texts.append(part)
            else:
                what = type(part).__name__.lower() if isinstance(part, Image | Document) else "part"
                texts.append(Text(BEHIND.format(what=what)))
                media += [Text(OF_RESULT.format(what=what, id=id)), part]
        match texts:
            case []:
                return _Answer(ToolResult(id, "", False, extra), media)
            case [Text(text, keys)] if not keys:
                return _Answer(ToolResult(id, text, False, extra), media)
            case _:
                return _Answer(ToolResult(id, tuple(texts), False, extra), media)

    def _heard(self, block: Block) -> list[Block]:
        """A block in a user's message as parts that the API has."""
        match block:
            case Image(source):
                return [block if source_url(source) is not None else Text(_stub(block))]
            case Document():
                return self._document(block)
            case _:
                return [block]

    def _document(self, block: Document) -> list[Block]:
        match block.source:
            case {"type": "base64", "media_type": str(kind), "data": str()}:
                named: Object = {"filename": f"document.{kind.rpartition('/')[2]}", **object_at(block.extra, "file")}
                return [msgspec.structs.replace(block, extra={**block.extra, "file": named})]
            case {"type": "text", "data": str(text)} | {"type": "content", "content": str(text)} if text.strip():
                return [Text(text)]
            case {"type": "content", "content": list(parts)} if parts:
                return [_inner(part) for part in map(decode_block, parts)]
            case {"type": "file", "file_id": str()} if self.own:
                return [block]
            case _:
                return [Text(_stub(block))]


def _call(block: ToolUse) -> ToolUse:
    """A call of the present API. Input that is text already, as broken JSON is, goes out as it came."""
    extra: Object = {}
    if isinstance(block.input, str):
        custom = block.extra.get("type") == "custom"
        extra = {"type": "custom"} if custom else {"function": {"arguments": block.input}}
    return ToolUse(short_id(block.id), block.name, block.input, extra)


def _spoken(block: Block) -> Block:
    """A block in an assistant's message, which holds no media."""
    return Text(_stub(block)) if isinstance(block, Image | Document) else block


def _inner(block: Block) -> Block:
    """A part of a document that is made of parts."""
    match block:
        case Text(text) if text.strip():
            return Text(text)
        case Image(source) if source_url(source) is not None:
            return Image(source)
        case _:
            return Text(json_text(block))


def _stub(block: Image | Document) -> str:
    """What stands for media that cannot be sent: what it is, and where it was."""
    source = block.source
    where = next((source[key] for key in ("path", "url", "file_id", "media_type") if isinstance(source.get(key), str)), "not in the file")
    return f"[{type(block).__name__.lower()}: {where}]"
