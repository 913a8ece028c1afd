"""OpenAI's Chat Completions (facts: API sections 7.1 and 7.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from .accounts import Iteration, Record, price_of
from .compose import cut_reply
from .engine import Engine
from .items import Item
from .openai_common import PrefixCache, check_openai, check_shape, decode_body, line_of, openai_limits
from .refusal import Object, openai_invalid
from .script import Reply
from .shapes import ChatBody
from .sse import bare_event, chunks
from .world import Limits, World

KEYS: Final = frozenset(
    [
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "moderation",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    ]
)
_ROLES: Final = ("developer", "system", "user", "assistant", "tool", "function")
_FINISH: Final = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}


class ChatApi:
    """The endpoint of one simulator."""

    def __init__(self, world: World, engine: Engine, cache: PrefixCache) -> None:
        self._world = world
        self._engine = engine
        self._cache = cache

    async def create(self, record: Record, headers: Mapping[str, str], data: bytes, *, refuse: bool) -> Object:
        """The completion that answers a request, its accounts written into ``record``. Raises Refused."""
        check_openai(self._world, headers)
        raw = decode_body(data, KEYS, ("model", "messages"))
        body: Object = {key: msgspec.json.decode(part) for key, part in raw.items() if key != "messages"}
        check_shape(body, ChatBody)
        limits = openai_limits(self._world, body["model"])
        items = _messages(limits, raw["messages"])
        record.model, record.body, record.messages = body["model"], body, [item.value for item in items]
        _check_pairs(items)
        counter = limits.reader.counter
        head = {key: body.get(key) for key in ("tools", "functions", "response_format") if body.get(key)}
        line = line_of(limits, head, counter.count_json(head) if head else 0, items)
        limit = _check_sizes(limits, body, line.tokens)
        reply = Reply(stop_reason="refusal") if refuse else await self._ask(record, body, line.tokens, limit)
        stops = body.get("stop") or ()
        cut = cut_reply(reply.parts(), counter, limit, (stops,) if isinstance(stops, str) else tuple(stops))
        output = min(limit, sum(cut.counts) if reply.output_tokens is None else reply.output_tokens)
        thinking = sum(count for part, count in zip(cut.parts, cut.counts, strict=True) if part["type"] == "thinking")
        used = self._cache.look(line, limits.model.cache)
        calls = [part for part in cut.parts if part["type"] == "tool_use"]
        why = cut.why or reply.stop_reason or ("tool_use" if calls else "end_turn")
        record.iterations = (Iteration("message", used, output),)
        record.thinking, record.stop_reason = thinking, why
        record.usd = price_of(limits.model, record.iterations)
        record.answer = self._completion(record, body, cut.parts, why)
        return record.answer

    async def _ask(self, record: Record, body: Object, tokens: int, limit: int) -> Reply:
        system = [str(m.get("content")) for m in record.messages if m.get("role") in ("system", "developer")]
        return await self._engine.ask(
            api="chat",
            purpose="turn",
            model=body["model"],
            system="\n".join(system),
            messages=record.messages,
            tools=body.get("tools") or (),
            max_tokens=limit,
            input_tokens=tokens,
        )

    def _completion(self, record: Record, body: Object, parts: list[Object], why: str) -> Object:
        text = "".join(part["text"] for part in parts if part["type"] == "text")
        calls = [
            {
                "id": part.get("id") or self._world.next_id("call"),
                "type": "function",
                "function": {"name": part["name"], "arguments": msgspec.json.encode(part["input"]).decode()},
            }
            for part in parts
            if part["type"] == "tool_use"
        ]
        message: Object = {"role": "assistant", "content": text or None, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        used, output = record.iterations[0].used, record.output
        details = {"cached_tokens": used.read, "cache_write_tokens": used.written_5m, "audio_tokens": 0}
        return {
            "id": self._world.next_id("chatcmpl"),
            "object": "chat.completion",
            "created": int(self._world.clock()),
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH.get(why, "stop")}],
            "usage": {
                "prompt_tokens": used.total,
                "completion_tokens": output,
                "total_tokens": used.total + output,
                "prompt_tokens_details": details,
                "completion_tokens_details": {"reasoning_tokens": record.thinking},
            },
        }


def chat_events(completion: Object, *, usage: bool) -> Iterator[bytes]:
    """A completion as its stream of chunks; ``usage``: with the chunk that ``stream_options.include_usage`` asks for."""
    base = {key: completion[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    if usage:
        base["usage"] = None

    def chunk(delta: Object, finish: str | None = None) -> bytes:
        return bare_event({**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

    choice = completion["choices"][0]
    message = choice["message"]
    yield chunk({"role": "assistant", "content": "" if message["content"] else None, "refusal": None})
    for piece in chunks(message["content"] or ""):
        yield chunk({"content": piece})
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        for piece in chunks(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    if usage:
        yield bare_event({**base, "choices": [], "usage": completion["usage"]})
    yield b"data: [DONE]\n\n"


def _messages(limits: Limits, raw: msgspec.Raw) -> list[Item]:
    try:
        found = msgspec.json.decode(raw, type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        raise openai_invalid("Invalid type for 'messages': expected an array of objects.", param="messages", code="invalid_type") from error
    if not found:
        text = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
        raise openai_invalid(text, param="messages", code="empty_array")
    items = list(map(limits.items.read, found))
    for i, item in enumerate(items):
        if item.value.get("role") not in _ROLES:
            raise openai_invalid(f"Invalid value: '{item.value.get('role')}'.", param=f"messages[{i}].role", code="invalid_value")
        if item.value.get("content") is None and not (
            item.kind == "assistant" and (item.value.get("tool_calls") or "refusal" in item.value)
        ):
            raise openai_invalid("Invalid value for 'content': expected a string, got null.", param=f"messages.[{i}].content")
    return items


def _check_pairs(items: list[Item]) -> None:
    """Each call is answered behind the message that makes it, and nothing else is (I1)."""
    waiting: list[str] = []
    for i, item in enumerate(items):
        if item.kind == "tool":
            if item.value.get("tool_call_id") not in waiting:
                raise openai_invalid(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
                    param=f"messages.[{i}].role",
                )
            waiting.remove(item.value["tool_call_id"])
            continue
        if waiting:
            raise _unanswered(waiting, i)
        waiting = [str(call.get("id")) for call in item.value.get("tool_calls") or ()]
    if waiting:
        raise _unanswered(waiting, len(items))


def _unanswered(ids: list[str], at: int) -> Exception:
    return openai_invalid(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(ids)}",
        param=f"messages.[{at}].role",
    )


def _check_sizes(limits: Limits, body: Object, tokens: int) -> int:
    """The most tokens that may be answered. Raises Refused where prompt, or prompt and answer, do not fit."""
    model = limits.model
    asked: Any = body.get("max_completion_tokens") or body.get("max_tokens")
    if asked is not None and asked < 1:
        raise openai_invalid("Invalid value for max_tokens: expected a positive integer.", param="max_tokens", code="invalid_value")
    if asked is not None and asked > model.max_output:
        most = f"This model supports at most {model.max_output} completion tokens, whereas you provided {asked}."
        text = f"max_tokens is too large: {asked}. {most}"
        raise openai_invalid(text, param="max_tokens", code="invalid_value")
    start = f"This model's maximum context length is {model.prompt_limit} tokens. However, "
    end = "Please reduce the length of the messages"
    if tokens > model.prompt_limit:
        text = f"{start}your messages resulted in {tokens} tokens. {end}."
        raise openai_invalid(text, param="messages", code="context_length_exceeded")
    if asked is not None and tokens + asked > model.window:
        start = f"This model's maximum context length is {model.window} tokens. However, "
        text = f"{start}you requested {tokens + asked} tokens ({tokens} in the messages, {asked} in the completion). {end} or completion."
        raise openai_invalid(text, param="messages", code="context_length_exceeded")
    return min(asked or model.max_output, model.window - tokens)
