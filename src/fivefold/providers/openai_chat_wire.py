"""A request and a response of OpenAI's Chat Completions as data, and a stream of chunks put together (V1, I6).

Messages are written as the writer of this format writes them (``formats.write_openai``). What this API has no place for: thinking that
another provider has signed, and calls that one performs itself, which become text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..calling import Call, Part, Reply
from ..core.entries import Head
from ..core.messages import (
    JSON,
    Block,
    Compaction,
    Message,
    Object,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolUse,
)
from ..core.rejection import Rejection
from ..core.repair import Request
from ..core.turns import json_text
from ..formats.common import openai_usage
from ..formats.openai_chat_messages import decode, encode
from ..formats.openai_parts import decode_arguments
from ..formats.write_openai import chat_messages, openai_tools
from .openai_sdk import refusal_in

_ONCE = frozenset({"role", "id", "type", "name", "index"})
"""Keys of a chunk's parts that are said once, as against texts that come in pieces."""
_READ = ("id", "object", "model", "choices", "usage")
_NOT_SENT = ("annotations", "audio", "content", "role")
"""Keys of an answer's message that a request does not take."""


def request(call: Call, settings: Mapping[str, JSON], *, limit: str, streamed: bool) -> Object:
    """Keyword arguments of ``create``. ``limit``: the name of the field that holds the most output tokens."""
    body: Object = {"model": call.model, **settings}
    if call.send.max_tokens is not None:
        body[limit] = call.send.max_tokens
    body["messages"] = messages_of((*call.system, *call.request.system), call.request.messages)
    if call.tools:
        body["tools"] = [tool for definition in call.tools for tool in _tool(definition)]
    if streamed:
        options = body.get("stream_options")
        body |= {"stream": True, "stream_options": {**(options if isinstance(options, dict) else {}), "include_usage": True}}
    return body


def messages_of(system: Sequence[Block], messages: Sequence[Message]) -> list[JSON]:
    """Messages as they are sent, system messages inside the conversation at their place (V5)."""
    out = chat_messages(Request(tuple(system), (), ()), own=True)
    for message in messages:
        blocks = tuple([block for found in message.blocks for block in _own(found)])
        if message.role == "system":
            out += encode(Message("system", blocks, bare=True))
        elif blocks:
            made = chat_messages(Request((), (Message(message.role, blocks, message.bare, message.extra),), ()), own=True)
            out += [_as_written(one, [block for block in blocks if isinstance(block, ToolUse)]) for one in made]
    return out


def _as_written(message: JSON, blocks: Sequence[ToolUse]) -> JSON:
    """A message whose calls have their arguments as the model wrote them, to the last space: they are part of the cached prefix (I5)."""
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    for call, block in zip(calls if isinstance(calls, list) else (), blocks, strict=False):
        kept = block.extra.get("function")
        written = kept.get("arguments") if isinstance(kept, dict) else None
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(written, str) and decode_arguments(written)[0] == block.input:
            function["arguments"] = written
    return message


def _own(block: Block) -> list[Block]:
    match block:
        case RedactedThinking():
            return []
        case Thinking(signature=signature) if signature:
            return []
        case ServerToolUse() | ServerToolResult() | Compaction():
            return [Text(json_text(block))]
        case _:
            return [block]


def _tool(definition: Object) -> list[JSON]:
    """A tool in this API's shape; what is none of another shape stays as it came."""
    if isinstance(definition.get("function") or definition.get("custom"), dict):
        return [definition]
    return openai_tools(Head(tools=(definition,))) or [definition]


def reply(data: Object) -> Reply | Rejection:
    """A whole completion; its first choice."""
    if data.get("error"):
        return refusal_in(data, 200)
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return Rejection(why="transient", message="the answer holds no choice", status=200)
    found = decode({**message, "role": "assistant"})
    stop, id, model = choice.get("finish_reason"), data.get("id"), data.get("model")
    told: Object = {key: value for key, value in data.items() if key not in _READ}
    told |= {key: value for key, value in choice.items() if key not in ("index", "message", "finish_reason")}
    told |= {key: message[key] for key in ("annotations", "audio") if message.get(key)}
    if isinstance(data.get("usage"), dict):
        told["usage"] = data["usage"]
    audio = message.get("audio")
    extra: Object = {"audio": {"id": audio["id"]}} if isinstance(audio, dict) and "id" in audio else {}
    return Reply(
        blocks=found.blocks,
        stop_reason=stop if isinstance(stop, str) else "",
        usage=openai_usage(data.get("usage")),
        api_id=id if isinstance(id, str) and id else None,
        model=model if isinstance(model, str) else None,
        extra=extra | {key: value for key, value in found.extra.items() if key not in _NOT_SENT and value is not None},
        told={key: value for key, value in told.items() if value is not None},
    )


class Gathered:
    """A stream's chunks so far."""

    def __init__(self) -> None:
        self.data: Object = {}
        self.choice: Object = {}
        self.message: Object = {}
        self.texts: dict[str, list[str]] = {}
        self.calls: list[Object] = []

    def take(self, event: Object) -> Part | None:
        """One chunk more; what of it is to be shown."""
        choices = event.get("choices")
        known = {key: value for key, value in event.items() if key != "choices" and (value is not None or key not in self.data)}
        self.data.update(known)
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict) or choice.get("index", 0) != 0:
            return None
        self.choice |= {key: value for key, value in choice.items() if key != "delta" and (value is not None or key not in self.choice)}
        delta = choice.get("delta")
        return self._delta(delta) if isinstance(delta, dict) else None

    def _delta(self, delta: Object) -> Part | None:
        part: Part | None = None
        calls = delta.get("tool_calls")
        for piece in calls if isinstance(calls, list) else ():
            if isinstance(piece, dict):
                part = self._call(piece)
        for key, value in delta.items():
            if isinstance(value, str) and key not in _ONCE:
                self.texts.setdefault(key, []).append(value)
            elif key != "tool_calls":
                _merge(self.message, {key: value})
        for key in ("reasoning_content", "reasoning"):
            if isinstance(text := delta.get(key), str) and text:
                return Part(kind="thinking", text=text)
        for key in ("content", "refusal"):
            if isinstance(text := delta.get(key), str) and text:
                return Part(kind="text", text=text)
        return part

    def _call(self, piece: Object) -> Part:
        """A piece of a call: of the one with its index; without one a new id begins a new call."""
        index = piece.get("index")
        at = index if isinstance(index, int) else len(self.calls) - 1 + bool(piece.get("id") or not self.calls)
        while len(self.calls) <= at < 1_000:
            self.calls.append({})
        call = self.calls[min(at, len(self.calls) - 1)]
        _merge(call, {key: value for key, value in piece.items() if key != "index"})
        function = piece.get("function") or piece.get("custom")
        inner: Object = function if isinstance(function, dict) else {}
        text, name = inner.get("arguments", inner.get("input")), inner.get("name")
        return Part(kind="call", text=text if isinstance(text, str) else "", index=at, name=name if isinstance(name, str) else "")

    def end(self) -> Reply | Rejection:
        """The whole completion."""
        if self.data.get("error"):
            return refusal_in(self.data, 200)
        if not self.choice.get("finish_reason"):
            return Rejection(why="transient", message="the stream ended before the response did", status=200)
        message: Object = {**self.message, **{key: "".join(pieces) for key, pieces in self.texts.items()}}
        if self.calls:
            message["tool_calls"] = list[JSON](self.calls)
        return reply({**self.data, "choices": [{**self.choice, "message": message}]})


def _merge(into: Object, piece: Object) -> None:
    """Put a piece of an object behind what is there: texts and lists grow, objects are merged, all else is said once."""
    for key, value in piece.items():
        known = into.get(key)
        if isinstance(known, str) and isinstance(value, str) and key not in _ONCE:
            into[key] = known + value
        elif isinstance(known, list) and isinstance(value, list):
            into[key] = [*known, *value]
        elif isinstance(known, dict) and isinstance(value, dict):
            merged = dict(known)
            _merge(merged, value)
            into[key] = merged
        elif known is None or (value is not None and not known):
            into[key] = value
