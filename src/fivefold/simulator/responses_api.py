"""OpenAI's Responses: create, input_tokens and compact (facts: API sections 7.1 and 7.3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from .accounts import Iteration, Record, price_of
from .cache import Used
from .compose import Cut, cut_reply
from .engine import Engine
from .items import Item
from .openai_common import PrefixCache, check_openai, check_shape, decode_body, line_of, openai_limits
from .refusal import Object, openai_invalid
from .response_items import TRIGGER, check_compactions, check_items, read_input, shown, text_content, truncated, user_messages
from .script import Reply
from .shapes import ResponsesBody
from .world import Limits, World

CREATE_KEYS: Final = frozenset(
    (
        *("access_programs", "background", "background_options", "context_management", "conversation", "image", "include", "input"),
        *("instructions", "max_output_tokens", "max_tool_calls", "metadata", "model", "moderation", "parallel_tool_calls"),
        *("previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning"),
        *("safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools"),
        *("top_logprobs", "top_p", "truncation", "user"),
    )
)
COUNT_KEYS: Final = frozenset(
    (
        *("conversation", "input", "instructions", "model", "parallel_tool_calls", "personality", "previous_response_id", "reasoning"),
        *("text", "tool_choice", "tools", "truncation"),
    )
)
COMPACT_KEYS: Final = frozenset(
    (
        *("image", "input", "instructions", "model", "previous_response_id", "prompt_cache_key", "prompt_cache_options"),
        *("prompt_cache_retention", "service_tier"),
    )
)
_TOO_LONG: Final = "Your input exceeds the context window of this model. Please adjust your input and try again."
_KEPT_RESPONSES: Final = 1_000


class Read(NamedTuple):
    """A request that is legal. ``items``: all of them, those of the previous response first; ``seen``: what the model is shown."""

    body: Object
    limits: Limits
    items: list[Item]
    seen: list[Item]
    head: Object
    head_tokens: int
    tokens: int


class ResponsesApi:
    """The endpoints of one simulator."""

    def __init__(self, world: World, engine: Engine, cache: PrefixCache) -> None:
        self._world = world
        self._engine = engine
        self._cache = cache
        self._kept: OrderedDict[str, list[Item]] = OrderedDict()
        self._reasoned: dict[str, str] = {}

    def read(self, record: Record, headers: Mapping[str, str], data: bytes, known: frozenset[str]) -> Read:
        """The request with every rule checked that needs no model. Raises Refused."""
        check_openai(self._world, headers)
        raw = decode_body(data, known, ("model",))
        body: Object = {key: msgspec.json.decode(part) for key, part in raw.items() if key != "input"}
        check_shape(body, ResponsesBody)
        limits = openai_limits(self._world, body["model"])
        given = read_input(limits, raw.get("input"))
        record.model, record.body, record.messages = body["model"], body, [item.value for item in given]
        items = [*self._previous(body), *given]
        if not items:
            raise openai_invalid("Missing required parameter: 'input'.", param="input", code="missing_required_parameter")
        check_compactions(items)
        check_items(items, self._reasoned)
        head = {key: body[key] for key in ("instructions", "tools", "text") if body.get(key)}
        head_tokens = limits.reader.counter.count_json(head) if head else 0
        seen = shown(items)
        tokens = head_tokens + sum(item.tokens for item in seen)
        if body.get("truncation") == "auto" and tokens > limits.model.prompt_limit:
            seen = truncated(seen, limits.model.prompt_limit, head_tokens)
            tokens = head_tokens + sum(item.tokens for item in seen)
        return Read(body, limits, items, seen, head, head_tokens, tokens)

    def _previous(self, body: Object) -> list[Item]:
        id = body.get("previous_response_id")
        if id is None:
            return []
        if id not in self._kept:
            text = f"Previous response with id '{id}' not found."
            raise openai_invalid(text, param="previous_response_id", code="previous_response_not_found")
        return self._kept[id]

    def count(self, record: Record, headers: Mapping[str, str], data: bytes) -> Object:
        """The answer of ``/responses/input_tokens``."""
        return {"object": "response.input_tokens", "input_tokens": self.read(record, headers, data, COUNT_KEYS).tokens}

    async def create(self, record: Record, headers: Mapping[str, str], data: bytes, *, refuse: bool) -> Object:
        """The response to a request, its accounts written into ``record``. Raises Refused."""
        read = self.read(record, headers, data, CREATE_KEYS)
        _check_window(read)
        output: list[Object] = []
        parts: list[Iteration] = []
        if _wants_compaction(read):
            block, iteration = await self._compaction(record, read, "all")
            output.append(block)
            parts.append(iteration)
            seen = [read.limits.items.item(block)]
            read = read._replace(seen=seen, tokens=read.head_tokens + seen[0].tokens)
        limit = min(read.body.get("max_output_tokens") or read.limits.model.max_output, read.limits.model.window - read.tokens)
        reply = Reply(stop_reason="refusal") if refuse else await self._ask(record, read, "turn", limit)
        cut = cut_reply(reply.parts(), read.limits.reader.counter, limit)
        used = self._cache.look(line_of(read.limits, read.head, read.head_tokens, read.seen), read.limits.model.cache)
        tokens = min(limit, sum(cut.counts) if reply.output_tokens is None else reply.output_tokens)
        record.thinking = sum(count for part, count in zip(cut.parts, cut.counts, strict=True) if part["type"] == "thinking")
        output += self._output(cut, refuse or reply.stop_reason == "refusal")
        parts.append(Iteration("message", used, tokens))
        record.iterations, record.usd = tuple(parts), price_of(read.limits.model, parts)
        record.stop_reason = (
            cut.why or reply.stop_reason or ("tool_use" if output and output[-1]["type"] == "function_call" else "end_turn")
        )
        record.answer = self._response(record, read, output)
        self._keep(record.answer, read, output)
        return record.answer

    async def compact(self, record: Record, headers: Mapping[str, str], data: bytes, *, refuse: bool) -> Object:
        """The answer of ``/responses/compact``: all user messages, then one item that stands for the rest."""
        read = self.read(record, headers, data, COMPACT_KEYS)
        _check_window(read)
        block, iteration = await self._compaction(record, read, "rest")
        record.iterations, record.usd = (iteration,), price_of(read.limits.model, (iteration,))
        record.stop_reason = "compaction"
        record.answer = {
            "id": self._world.next_id("resp"),
            "object": "response.compaction",
            "created_at": int(self._world.clock()),
            "output": [*user_messages(read.items, self._world), block],
            "usage": _usage(iteration.used, iteration.output, 0),
        }
        return record.answer

    async def _compaction(self, record: Record, read: Read, covers: Literal["all", "rest"]) -> tuple[Object, Iteration]:
        reply = await self._ask(record, read, "compaction", read.limits.model.max_output)
        used = self._cache.look(line_of(read.limits, read.head, read.head_tokens, read.seen), read.limits.model.cache)
        text = "\n".join(str(part["text"]) for part in reply.parts() if part["type"] == "text")
        block = {"type": "compaction", "id": self._world.next_id("cmp"), "encrypted_content": f"{covers}:{text}"}
        return block, Iteration("compaction", used, read.limits.reader.counter.count(text))

    async def _ask(self, record: Record, read: Read, purpose: Literal["turn", "compaction"], limit: int) -> Reply:
        return await self._engine.ask(
            api="responses",
            purpose=purpose,
            model=read.body["model"],
            system=str(read.body.get("instructions") or ""),
            messages=[item.value for item in read.seen],
            tools=read.body.get("tools") or (),
            max_tokens=limit,
            input_tokens=read.tokens,
        )

    def _output(self, cut: Cut, refused: bool) -> list[Object]:
        """The items of a reply: reasoning, a message, calls; a call remembers the reasoning that it came with."""
        found: list[Object] = []
        reasoning = None
        for part in cut.parts:
            if part["type"] == "thinking":
                reasoning = self._world.next_id("rs")
                found.append({"type": "reasoning", "id": reasoning, "summary": [], "encrypted_content": None})
            elif part["type"] == "text":
                id = self._world.next_id("msg")
                content = text_content(part["text"])
                found.append({"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content})
            elif part["type"] == "tool_use":
                id = self._world.next_id("fc")
                if reasoning is not None:
                    self._reasoned[id] = reasoning
                call = {"type": "function_call", "id": id, "call_id": part.get("id") or self._world.next_id("call")}
                call |= {"name": part["name"], "arguments": msgspec.json.encode(part["input"]).decode(), "status": "completed"}
                found.append(call)
        if refused and not found:
            content = [{"type": "refusal", "refusal": "I cannot help with that."}]
            id = self._world.next_id("msg")
            found.append({"type": "message", "id": id, "role": "assistant", "status": "completed", "content": content})
        return found

    def _response(self, record: Record, read: Read, output: list[Object]) -> Object:
        cut_off = record.stop_reason == "max_tokens"
        body = read.body
        same = {
            key: body.get(key) for key in ("instructions", "max_output_tokens", "previous_response_id", "metadata", "temperature", "top_p")
        }
        last = record.iterations[-1]
        return {
            "id": self._world.next_id("resp"),
            "object": "response",
            "created_at": int(self._world.clock()),
            "status": "incomplete" if cut_off else "completed",
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut_off else None,
            "model": body["model"],
            "output": output,
            "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "tool_choice": body.get("tool_choice", "auto"),
            "tools": body.get("tools") or [],
            "truncation": body.get("truncation", "disabled"),
            "store": body.get("store", True),
            "usage": _usage(_sum_of(record), sum(part.output for part in record.iterations), record.thinking) if last else None,
            **same,
        }

    def _keep(self, response: Object, read: Read, output: list[Object]) -> None:
        if response["store"] is False:
            return
        items = [item for item in read.items if item.kind != TRIGGER]
        self._kept[response["id"]] = [*items, *map(read.limits.items.item, output)]
        while len(self._kept) > _KEPT_RESPONSES:
            self._kept.popitem(last=False)


def _check_window(read: Read) -> None:
    if read.tokens > read.limits.model.prompt_limit:
        raise openai_invalid(_TOO_LONG, param="input", code="context_length_exceeded")


def _wants_compaction(read: Read) -> bool:
    if any(item.kind == TRIGGER for item in read.items):
        return True
    edits = [edit for edit in read.body.get("context_management") or () if edit.get("type") == "compaction"]
    return any(read.tokens >= edit["compact_threshold"] for edit in edits if edit.get("compact_threshold"))


def _sum_of(record: Record) -> Used:
    """Of all windows: how the parts of a compacted response are told is not documented; the sum is what is billed."""
    parts = [part.used for part in record.iterations]
    return Used(sum(p.fresh for p in parts), sum(p.read for p in parts), sum(p.written_5m for p in parts), 0)


def _usage(used: Used, output: int, thinking: int) -> Object:
    return {
        "input_tokens": used.total,
        "input_tokens_details": {"cached_tokens": used.read, "cache_write_tokens": used.written_5m},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": thinking},
        "total_tokens": used.total + output,
    }
