"""A request and a response of OpenAI's Responses as data, and a stream of events put together (V1, I6).

Nothing is kept at the provider: ``store`` is off and encrypted reasoning goes back as it came, in front of what followed it. The keys
of a message item (its id, status, phase) stand in the ``extra`` of its first text under ``message``, so that the item goes out again
as it was. The compaction endpoint gives back several items to be sent as they are: they are one block here, with ``output``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..calling import Call, Part, Reply
from ..core.messages import JSON, Block, Compaction, Document, Image, Message, Object, RedactedThinking, Text, Thinking
from ..core.rejection import Rejection
from ..formats.common import openai_usage
from ..formats.responses_items import decode, encode
from ..formats.write_common import tools_of
from .openai_sdk import refusal_in

ENCRYPTED = "reasoning.encrypted_content"
ITEM = "message"
_READ = ("id", "object", "model", "output", "usage", "status")
_REQUEST_SAID = frozenset(
    {
        *("instructions", "tools", "tool_choice", "parallel_tool_calls", "temperature", "top_p", "metadata", "store", "truncation", "text"),
        *("max_output_tokens", "max_tool_calls", "reasoning", "previous_response_id", "prompt_cache_key", "user", "background"),
    }
)
"""Keys of a response that say what the request said."""


def request(call: Call, settings: Mapping[str, JSON], *, streamed: bool) -> Object:
    """Keyword arguments of ``create``."""
    body: Object = {"model": call.model, "store": False, **settings}
    if call.send.max_tokens is not None:
        body["max_output_tokens"] = call.send.max_tokens
    if body["store"] is False:
        include = body.get("include")
        body["include"] = list(dict.fromkeys([*(include if isinstance(include, list) else []), ENCRYPTED]))
    instructions = instructions_of((*call.system, *call.request.system))
    if instructions:
        body["instructions"] = instructions
    body["input"] = items_of(call.request.messages)
    if call.tools:
        body["tools"] = [_tool(definition) for definition in call.tools]
    return {**body, "stream": True} if streamed else body


def instructions_of(system: Sequence[Block]) -> str:
    """A system prompt as one text."""
    return "\n\n".join(block.text for block in system if isinstance(block, Text))


def items_of(messages: Sequence[Message]) -> list[JSON]:
    """The items of messages."""
    return [item for message in messages for item in _items(message)]


def _items(message: Message) -> list[JSON]:
    """The items of one message: runs of content as message items, all else as items of their own, in order."""
    found: list[JSON] = []
    run: list[Block] = []
    extra: Object = {}

    def close() -> None:
        nonlocal run, extra
        if run:
            found.extend(encode(Message(message.role, tuple(run), extra=extra or {"type": "message"})))
        run, extra = [], {}

    others: list[Block] = []
    for block in message.blocks:
        if not isinstance(block, Text | Image | Document):
            close()
            others += _sendable(block)
            continue
        found.extend(encode(Message(message.role, tuple(others))) if others else [])
        others = []
        item = block.extra.get(ITEM)
        if isinstance(item, dict):
            close()
            extra = item
            block = msgspec.structs.replace(block, extra={key: value for key, value in block.extra.items() if key != ITEM})
        run.append(block)
    close()
    found.extend(encode(Message(message.role, tuple(others))) if others else [])
    return [part for item in found for part in _expanded(item)]


def _sendable(block: Block) -> list[Block]:
    """Thinking that another provider has signed stays behind: only a reasoning item of this one has the keys of an item."""
    match block:
        case Thinking(extra=extra) if "type" not in extra:
            return []
        case RedactedThinking():
            return []
        case _:
            return [block]


def _expanded(item: JSON) -> list[JSON]:
    match item:
        case {"type": "compaction", "output": list(items)}:
            return items
        case _:
            return [item]


def compacted(output: Sequence[JSON]) -> Object:
    """What the compaction endpoint gave, as one block."""
    return {"type": "compaction", "output": list(output)}


def _tool(definition: Object) -> JSON:
    """A tool in this API's shape; its own, and those that the provider runs, stay as they came."""
    if "input_schema" not in definition and not isinstance(definition.get("function"), dict):
        return definition
    found = next(tools_of([definition]), None)
    if found is None:
        return definition
    said: Object = {"description": found.description} if found.description else {}
    return {"type": "function", "name": found.name, **said, "parameters": found.parameters, "strict": False}


def blocks_of(output: JSON) -> tuple[Block, ...]:
    """The blocks of output items."""
    found: list[Block] = []
    for item in output if isinstance(output, list) else []:
        message = decode(item)
        blocks = list(message.blocks)
        if message.extra and blocks and isinstance(blocks[0], Text):
            blocks[0] = msgspec.structs.replace(blocks[0], extra={**blocks[0].extra, ITEM: message.extra})
        found += blocks
    return tuple(found)


def reply(data: Object) -> Reply | Rejection:
    """A whole response. ``stop_reason``: why it is incomplete, else its status."""
    status, why = data.get("status"), data.get("incomplete_details")
    error = data.get("error")
    if status == "failed" or error:
        return refusal_in(error, 200)
    reason = why.get("reason") if isinstance(why, dict) else None
    stop = reason if isinstance(reason, str) else status
    id, model = data.get("id"), data.get("model")
    told: Object = {key: value for key, value in data.items() if key not in _READ and key not in _REQUEST_SAID and value is not None}
    if isinstance(data.get("usage"), dict):
        told["usage"] = data["usage"]
    return Reply(
        blocks=blocks_of(data.get("output")),
        stop_reason=stop if isinstance(stop, str) else "",
        usage=openai_usage(data.get("usage")),
        api_id=id if isinstance(id, str) else None,
        model=model if isinstance(model, str) else None,
        told=told,
    )


class Gathered:
    """A stream's events so far."""

    def __init__(self) -> None:
        self.items: dict[int, JSON] = {}
        self.response: Object | None = None
        self.error: Object | None = None

    def take(self, event: Object) -> Part | None:
        """One event more; what of it is to be shown. Types that are not known say nothing."""
        place = event.get("output_index")
        at = place if isinstance(place, int) else 0
        match event:
            case {"type": "response.output_item.added", "item": {"type": "function_call" | "custom_tool_call", "name": str(name)}}:
                return Part(kind="call", index=at, name=name)
            case {"type": "response.output_item.done", "item": item}:
                self.items[at] = item
            case {"type": "response.output_text.delta" | "response.refusal.delta", "delta": str(text)}:
                return Part(kind="text", text=text, index=at)
            case {"type": "response.reasoning_summary_text.delta" | "response.reasoning_text.delta", "delta": str(text)}:
                return Part(kind="thinking", text=text, index=at)
            case {"type": "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta", "delta": str(text)}:
                return Part(kind="call", text=text, index=at)
            case {"type": "response.completed" | "response.incomplete" | "response.failed", "response": dict(response)}:
                self.response = response
            case {"type": "error"}:
                self.error = {key: value for key, value in event.items() if key != "type"}
        return None

    def end(self) -> Reply | Rejection:
        """The whole response."""
        if self.error is not None:
            return refusal_in(self.error, 200)
        if self.response is None:
            return Rejection(why="transient", message="the stream ended before the response did", status=200)
        if not self.response.get("output") and self.items:
            self.response = {**self.response, "output": [self.items[at] for at in sorted(self.items)]}
        return reply(self.response)


def compaction_in(blocks: Sequence[Block]) -> bool:
    """Whether a compaction item is among these."""
    return any(isinstance(block, Compaction) for block in blocks)
