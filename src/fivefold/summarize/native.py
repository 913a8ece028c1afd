"""Compaction by the provider itself, on request: what is asked for, where it may be cut, and what comes back (L10, I7).

The facts are of Anthropic's on-demand compaction (Messages API, beta ``compact-2026-09-04``): a request with ``compaction`` in its body
is answered by one signed block, which from then on stands first and goes back exactly as it came. Pure: what is sent, and by
whom, is the caller's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..core.entries import SHOWN_AS, Entry
from ..core.messages import JSON, Block, Compaction, Object, Role
from ..core.pairing import legal_cuts, pair
from ..errors import SummaryError

BETA = "compact-2026-09-04"
"""Value of the ``anthropic-beta`` header on the request, and on every later one that carries the block."""
INSTRUCTIONS_CHARS = 16_384
LEAST_TOKENS = 4_096
"""``max_tokens`` holds the summary and the thinking about it."""
_LEFT_OUT = ("context_management", "stop_sequences", "output_format")
"""Fields that the provider refuses beside ``compaction``."""
_WHY = {
    "max_tokens": "its limit of output cut it off",
    "model_context_window_exceeded": "the conversation does not fit the window any more",
    "tool_use": "the model called a tool instead",
    "refusal": "the provider refused",
    "end_turn": "the model ended without a summary",
}


class NativeRequest(NamedTuple):
    """A request for a block. ``body``: all of it but the messages, which are ``entries``, sent as they always are."""

    entries: tuple[Entry, ...]
    body: Object
    left_out: tuple[str, ...]
    """What the conversation's own requests hold and this one may not."""
    restate: tuple[str, ...]
    """Ids of system entries that are summarised away and have to be said again behind the block (C6)."""


def native_cut(entries: Sequence[Entry], at: int) -> int:
    """The last place at or before ``at`` where the conversation may be cut for a block: no call is open or apart from its result,
    and what follows begins with another role than what goes in ends with, and not with a system message, or its thinking would
    not stay valid (I7). 0 where there is none."""
    legal, roles = legal_cuts(entries), [_role(entry) for entry in entries]
    before: list[Role | None] = [None]
    for role in roles:
        before.append(role or before[-1])
    behind: list[Role | None] = [None]
    for role in reversed(roles):
        behind.append(role or behind[-1])
    behind.reverse()
    for cut in range(min(at, len(entries)), 0, -1):
        if legal[cut] and before[cut] is not None and behind[cut] not in (before[cut], "system"):
            return cut
    return 0


def request_for(
    entries: Sequence[Entry], cut: int, body: Mapping[str, JSON], *, instructions: str = "", max_tokens: int = LEAST_TOKENS
) -> NativeRequest:
    """The request that has the first ``cut`` entries summarised. ``body``: the fields of the conversation's own requests, of which
    model, system prompt, tools and thinking stay as they are; messages are not looked at.

    Raises SummaryError where the entries may not be cut there, or hold nothing to summarise.
    """
    part = tuple(entries[:cut])
    if not any(entry.kind in ("user", "assistant") for entry in part):
        raise SummaryError("the provider's own compaction has nothing to summarise before that place")
    if pair(part).open or native_cut(entries, cut) != cut:
        raise SummaryError("the provider's own compaction may not be cut there: a call is open, or the same role goes on behind it")
    kept, left_out = _allowed(body)
    asked: Object = {"type": "summarize"}
    if instructions.strip():
        asked["instructions"] = instructions.strip()[:INSTRUCTIONS_CHARS]
    kept["compaction"] = asked
    kept["max_tokens"] = max(max_tokens, LEAST_TOKENS)
    leading = next((i for i, entry in enumerate(part) if entry.kind != "system"), len(part))  # they are the system prompt
    restate = tuple(entry.id for entry in part[leading:] if entry.kind == "system" and entry.blocks)
    return NativeRequest(part, kept, tuple(left_out), restate)


def _allowed(body: Mapping[str, JSON]) -> tuple[Object, list[str]]:
    """The fields that may stand beside ``compaction``, and the names of the others."""
    kept: Object = {key: value for key, value in body.items() if key not in ("messages", *_LEFT_OUT)}
    left_out = [key for key in _LEFT_OUT if key in body]
    match kept.get("tool_choice"):
        case {"type": "any" | "tool"}:
            del kept["tool_choice"]
            left_out.append("tool_choice")
    config = kept.get("output_config")
    if isinstance(config, dict):
        config = {key: value for key, value in config.items() if key != "format"}
        budget = config.get("task_budget")
        if isinstance(budget, dict) and "remaining" in budget:
            config["task_budget"] = {key: value for key, value in budget.items() if key != "remaining"}
        if config != kept["output_config"]:
            left_out.append("output_config")
            kept["output_config"] = config
        if not config:
            del kept["output_config"]
    return kept, left_out


def read_answer(blocks: Sequence[Block], stop_reason: str) -> Compaction:
    """The block of an answer. Keys that hold nothing are left out: the provider takes none that it does not know.

    Raises SummaryError where none came; the answer is billed all the same.
    """
    found = [block for block in blocks if isinstance(block, Compaction)]
    if len(found) == 1 and isinstance(text := found[0].data.get("content"), str) and text.strip():
        return Compaction({key: value for key, value in found[0].data.items() if value is not None})
    if len(found) > 1:
        raise SummaryError(f"the provider's own compaction gave {len(found)} blocks, a request may hold one")
    why = _WHY.get(stop_reason, f"it stopped with {stop_reason or 'no reason'}")
    raise SummaryError(f"the provider's own compaction gave no summary: {why}")


def text_of(block: Compaction) -> str:
    """What of a block can be read."""
    text = block.data.get("content")
    return text if isinstance(text, str) else ""


def stand_in(id: str, block: Compaction) -> Entry:
    """The entry that stands for what was summarised: the block alone, first of the first user message. Nothing may come between it
    and what was kept, or the thinking there is no longer valid: what code carries over goes behind the kept entries."""
    return Entry(id=id, kind="user", blocks=(block,), summary=True)


def faults(entries: Sequence[Entry]) -> list[str]:
    """What a provider would refuse in a view that holds a block: more than one, or one that is not the first thing sent."""
    places = list(_places(entries))
    found = [f"{len(places)} compaction blocks, one may stand in a request"] if len(places) > 1 else []
    sent = [entry for entry in entries if entry.kind in SHOWN_AS and entry.kind != "system" and entry.blocks]
    if places and (not sent or places[0] != (sent[0].id, 0)):
        found.append(f"the compaction block of entry {places[0][0]} is not the first block of the first message")
    return found


def _places(entries: Sequence[Entry]) -> Iterator[tuple[str, int]]:
    for entry in entries:
        if entry.kind in SHOWN_AS:
            yield from ((entry.id, i) for i, block in enumerate(entry.blocks) if isinstance(block, Compaction))


def _role(entry: Entry) -> Role | None:
    """The role an entry is sent in; None where it is not sent."""
    return SHOWN_AS[entry.kind] if entry.kind in SHOWN_AS and entry.blocks else None
