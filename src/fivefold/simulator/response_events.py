"""A response as its stream of events (OpenAI's Responses)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from .refusal import Object
from .sse import chunks, event


def response_events(response: Object) -> Iterator[bytes]:
    """A whole response as its stream."""
    number = count()

    def made(kind: str, **fields: object) -> bytes:
        return event({"type": kind, "sequence_number": next(number), **fields})

    begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield made("response.created", response=begun)
    yield made("response.in_progress", response=begun)
    for index, item in enumerate(response["output"]):
        for kind, fields in _item_events(item):
            yield made(kind, output_index=index, **fields)
    yield made(f"response.{response['status']}", response=response)


def _item_events(item: Object) -> Iterator[tuple[str, Object]]:
    """The events of one item without their index and number."""
    kind, at = item["type"], {"item_id": item["id"]}
    if kind == "message":
        yield "response.output_item.added", {"item": {**item, "status": "in_progress", "content": []}}
        for index, part in enumerate(item["content"]):
            yield from _part_events(part, {**at, "content_index": index})
    elif kind == "function_call":
        yield "response.output_item.added", {"item": {**item, "status": "in_progress", "arguments": ""}}
        for piece in chunks(item["arguments"]):
            yield "response.function_call_arguments.delta", {**at, "delta": piece}
        yield "response.function_call_arguments.done", {**at, "arguments": item["arguments"], "name": item["name"]}
    else:
        yield "response.output_item.added", {"item": item}
        if kind == "compaction":
            yield "response.compaction.compacting", at
    yield "response.output_item.done", {"item": item}


def _part_events(part: Object, at: Object) -> Iterator[tuple[str, Object]]:
    if part["type"] == "refusal":
        yield "response.content_part.added", {**at, "part": {**part, "refusal": ""}}
        yield "response.refusal.delta", {**at, "delta": part["refusal"]}
        yield "response.refusal.done", {**at, "refusal": part["refusal"]}
    else:
        yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
        for piece in chunks(part["text"]):
            yield "response.output_text.delta", {**at, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {**at, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**at, "part": part}
