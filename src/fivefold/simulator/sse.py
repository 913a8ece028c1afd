"""Answers as server-sent events, in the order of Anthropic's stream (facts: API section 4)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .refusal import Object

DELTA_CHARS = 80
_DELTAS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


def event(data: Object, name: str | None = None) -> bytes:
    """One event; its name is the type of its data unless given."""
    return b"event: " + (name or str(data["type"])).encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"


def bare_event(data: Object) -> bytes:
    """One event without a name, as OpenAI's Chat Completions sends them."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


def chunks(text: str) -> Iterator[str]:
    """A text in the pieces in which it is streamed."""
    return (text[i : i + DELTA_CHARS] for i in range(0, len(text), DELTA_CHARS))


def message_events(message: Object) -> Iterator[bytes]:
    """A whole message as its stream."""
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    start.pop("context_management", None)
    yield event({"type": "message_start", "message": start})
    yield event({"type": "ping"})
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    end: Object = {
        "type": "message_delta",
        "delta": {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]},
        "usage": {key: value for key, value in usage.items() if key not in ("cache_creation", "service_tier")},
    }
    if "context_management" in message:
        end["context_management"] = message["context_management"]
    yield event(end)
    yield event({"type": "message_stop"})


def _block_events(index: int, block: Object) -> Iterator[bytes]:
    kind = block["type"]
    if kind in _DELTAS:
        delta, key = _DELTAS[kind]
        empty = {**block, key: ""}
        if kind == "thinking":
            empty["signature"] = ""
        deltas: list[Object] = [{"type": delta, key: piece} for piece in chunks(block[key])]
        if kind == "thinking":
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind in ("tool_use", "server_tool_use"):
        empty = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in chunks(msgspec.json.encode(block["input"]).decode())]
    elif kind == "compaction" and "signature" not in block:
        empty = {"type": "compaction", "content": None}
        deltas = [{**block, "type": "compaction_delta"}]
    else:
        empty, deltas = block, []
    yield event({"type": "content_block_start", "index": index, "content_block": empty})
    for part in deltas:
        yield event({"type": "content_block_delta", "index": index, "delta": part})
    yield event({"type": "content_block_stop", "index": index})
