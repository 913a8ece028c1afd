"""A response of Anthropic's Messages API, and a stream of events put together to the response that it is (V1, I6, T8, E6)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..calling import Part, Reply
from ..core.entries import Usage
from ..core.messages import JSON, Object
from ..core.rejection import Rejection
from ..formats.common import anthropic_usage, count
from .anthropic_wire import decoded

_READ = ("type", "role", "content", "stop_reason", "id", "model", "context_management")
"""Keys of a response that have a place of their own in a reply, or say nothing."""
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")


def reply(data: Mapping[str, JSON]) -> Reply:
    """A whole response."""
    stop, id, model = data.get("stop_reason"), data.get("id"), data.get("model")
    return Reply(
        blocks=decoded(data.get("content")),
        stop_reason=stop if isinstance(stop, str) else "",
        usage=anthropic_usage(data.get("usage")),
        api_id=id if isinstance(id, str) else None,
        model=model if isinstance(model, str) else None,
        context_management=data.get("context_management"),
        told={key: value for key, value in data.items() if key not in _READ and value is not None},
    )


def all_windows(told: Mapping[str, JSON]) -> Usage | None:
    """What a response has cost, its compaction included: the sum of all windows of its raw usage (T8)."""
    usage = told.get("usage")
    listed = usage.get("iterations") if isinstance(usage, dict) else None
    if not isinstance(listed, list) or not listed:
        return anthropic_usage(usage)
    total = Usage()
    for window in listed:
        if isinstance(window, dict):
            total += Usage(
                input=count(window, "input_tokens"),
                cache_write=count(window, "cache_creation_input_tokens"),
                cache_read=count(window, "cache_read_input_tokens"),
                output=count(window, "output_tokens"),
                cache_write_1h=count(window, "cache_creation", "ephemeral_1h_input_tokens"),
            )
    return total


class Gathered:
    """A stream's events so far."""

    def __init__(self) -> None:
        self.message: Object = {}
        self.blocks: dict[int, Object] = {}
        self.jsons: dict[int, list[str]] = {}
        self.texts: dict[tuple[int, str], list[str]] = {}
        """Pieces of text by block and key, put together at its end."""

    def take(self, event: Object) -> Part | None:
        """One event more; what of it is to be shown. Types that are not known say nothing."""
        index = event.get("index")
        at = index if isinstance(index, int) else 0
        match event.get("type"):
            case "message_start":
                started = event.get("message")
                self.message = dict(started) if isinstance(started, dict) else {}
            case "content_block_start":
                return self._start(at, event.get("content_block"))
            case "content_block_delta":
                delta = event.get("delta")
                return self._delta(at, delta) if isinstance(delta, dict) else None
            case "content_block_stop":
                self._stop(at)
            case "message_delta":
                self._ended(event)
        return None

    def _start(self, at: int, block: JSON) -> Part | None:
        self.blocks[at] = dict(block) if isinstance(block, dict) else {}
        kind, name = self.blocks[at].get("type"), self.blocks[at].get("name")
        if kind in _CALLS:
            self.jsons[at] = []
            return Part(kind="call", index=at, name=name) if isinstance(name, str) and kind == "tool_use" else None
        return None

    def _delta(self, at: int, delta: Object) -> Part | None:
        block = self.blocks.setdefault(at, {})
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                self._grow(at, "text", text)
                return Part(kind="text", text=text, index=at)
            case {"type": "thinking_delta", "thinking": str(text)}:
                self._grow(at, "thinking", text)
                return Part(kind="thinking", text=text, index=at)
            case {"type": "signature_delta", "signature": str(signature)}:
                self._grow(at, "signature", signature)
            case {"type": "input_json_delta", "partial_json": str(text)}:
                self.jsons.setdefault(at, []).append(text)
                return Part(kind="call", text=text, index=at) if block.get("type") == "tool_use" else None
            case {"type": "citations_delta", "citation": citation}:
                cited = block.get("citations")
                block["citations"] = [*(cited if isinstance(cited, list) else []), citation]
            case {"type": "compaction_delta", **rest}:
                block.update({key: value for key, value in rest.items() if value is not None or key == "content"})
        return None

    def _grow(self, at: int, key: str, text: str) -> None:
        self.texts.setdefault((at, key), []).append(text)

    def _stop(self, at: int) -> None:
        for key in ("text", "thinking", "signature"):
            if (at, key) in self.texts:
                begun = self.blocks[at].get(key)
                self.blocks[at][key] = "".join([begun if isinstance(begun, str) else "", *self.texts.pop((at, key))])
        pieces = self.jsons.pop(at, [])
        if any(pieces):
            self.blocks[at]["input"] = _input("".join(pieces))

    def _ended(self, event: Object) -> None:
        delta, usage = event.get("delta"), event.get("usage")
        if isinstance(delta, dict):
            self.message.update(delta)
        if isinstance(usage, dict):
            known = self.message.get("usage")
            told = {key: value for key, value in usage.items() if value is not None}
            self.message["usage"] = {**(known if isinstance(known, dict) else {}), **told}
        self.message |= {key: value for key, value in event.items() if key not in ("type", "delta", "usage")}

    def reply(self) -> Reply:
        """The response so far."""
        for at in list(self.blocks):
            self._stop(at)
        content: list[JSON] = [self.blocks[at] for at in sorted(self.blocks)]
        return reply({**self.message, "content": content})

    def end(self) -> Reply | Rejection:
        """The whole response."""
        if not self.message.get("stop_reason"):
            return Rejection(why="transient", message="the stream ended before the response did", status=200)
        return self.reply()


def _input(text: str) -> JSON:
    """A call's input; what is no JSON stays the text that it is."""
    try:
        found: JSON = json.loads(text)
    except ValueError:
        return text
    return found
