"""From what a model says to the content of a response: limits of output, stop sequences, ids, signatures."""

from __future__ import annotations

from typing import NamedTuple

from .asked import Asked
from .refusal import Object
from .script import Reply
from .seals import Seal, digest_of, sealed
from .thinking import Checked
from .tokens import Counter
from .world import World


class Composed(NamedTuple):
    """The content of a response, why it stopped, and its tokens; ``thinking`` is part of ``output``."""

    content: list[Object]
    stop_reason: str
    stop_sequence: str | None
    output: int
    thinking: int


class Cut(NamedTuple):
    """The blocks of a reply that fit, and why the rest was left out, if any was. ``counts`` are the tokens of each."""

    parts: list[Object]
    counts: list[int]
    why: str | None
    stop_sequence: str | None


def cut_reply(parts: list[Object], counter: Counter, room: int, stops: tuple[str, ...] = ()) -> Cut:
    """As much of a reply as ``room`` tokens hold, up to the first stop sequence in its text. A call that does not fit is left out."""
    kept: list[Object] = []
    counts: list[int] = []
    for part in parts:
        key = part["type"] if part["type"] in ("text", "thinking") else None
        text = str(part[key]) if key else ""
        found = min(((at, stop) for stop in stops if key == "text" and (at := text.find(stop)) >= 0), default=None)
        if found is not None:
            text = text[: found[0]]
        count = counter.count(text) if key else _count_other(part, counter)
        left = room - sum(counts)
        if count > left and key:
            text = counter.cut(text, left)
            count = min(left, counter.count(text))
            found = None
        elif count > left:
            return Cut(kept, counts, "max_tokens", None)
        if not key or text:
            kept.append({**part, key: text} if key else part)
            counts.append(count)
        if key and len(text) < len(str(part[key])):
            return Cut(kept, counts, "stop_sequence" if found else "max_tokens", found[1] if found else None)
    return Cut(kept, counts, None, None)


def _count_other(part: Object, counter: Counter) -> int:
    if part["type"] == "tool_use":
        return counter.count(str(part["name"])) + counter.count_json(part["input"])
    return counter.count_json(part)


def thinks(asked: Asked) -> bool:
    """Whether the model thinks in this request: asked to, or by default (facts: API section 6)."""
    limits = asked.limits
    if limits.model.thinking == "none":
        return False
    kind = (asked.body.get("thinking") or {}).get("type")
    if kind is None:
        return not limits.off or limits.thinks_by_default
    return bool(kind != "disabled")


def compose(world: World, asked: Asked, checked: Checked, reply: Reply, input_tokens: int, prefix: str | None = None) -> Composed:
    """The content of a response to a prompt of ``input_tokens``. ``prefix``: what its thinking is bound to; None: the request."""
    limits = asked.limits
    counter = limits.reader.counter
    window_room = limits.model.window - input_tokens
    room = min(asked.max_tokens, window_room)
    on = thinks(asked)
    parts = [part for part in reply.parts() if on or part["type"] not in ("thinking", "redacted_thinking")]
    cut = cut_reply(parts, counter, room, tuple(asked.body.get("stop_sequences") or ()))
    content, last = [], "" if prefix is not None else checked.last
    for part, count in zip(cut.parts, cut.counts, strict=True):
        if part["type"] in ("thinking", "redacted_thinking"):
            part = _sign(asked, part, count, prefix or checked.prefix, last)
            last = digest_of(part.get("signature") or part["data"])
        elif part["type"] == "tool_use" and part.get("id") is None:
            part = {**part, "id": world.next_id("toolu")}
        content.append(part)
    output = sum(cut.counts) if reply.output_tokens is None else reply.output_tokens
    why = cut.why
    if output > room:
        output, why = room, "max_tokens"
    if why == "max_tokens" and window_room < asked.max_tokens:
        why = "model_context_window_exceeded"
    natural = "tool_use" if any(part["type"] == "tool_use" for part in content) else "end_turn"
    thinking = sum(count for part, count in zip(cut.parts, cut.counts, strict=True) if "thinking" in part["type"])
    return Composed(content, why or reply.stop_reason or natural, cut.stop_sequence, output, min(thinking, output))


def _sign(asked: Asked, part: Object, count: int, prefix: str, before: str) -> Object:
    """A thinking block with its signature; its text is left out where it is not to be shown, and counts all the same."""
    given = asked.body.get("thinking") or {}
    default = "omitted" if asked.limits.hides_thinking else "summarized"
    text = part.get("thinking", "")
    if part["type"] == "redacted_thinking" or (given.get("display") or default) == "omitted":
        text = ""
    token = sealed(Seal(asked.limits.model.id, prefix, before, digest_of(text), count))
    if part["type"] == "redacted_thinking":
        return {"type": "redacted_thinking", "data": token}
    return {"type": "thinking", "thinking": text, "signature": token}
