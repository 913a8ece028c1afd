"""Where the cache marks of a request stand, and edits of the provider's cache (I5, M3).

Anthropic writes its cache at marks only, and finds an entry at a mark or up to 20 positions before one. So what is to be read is marked
exactly where it was written: of the places that were marked before, the last two up to which the conversation is what it was (two, since
the last one may have been in a request that failed). Then nothing depends on how many blocks have come since, after a fold in the middle
either. Four marks: the end of the system prompt, or of the tools where there is none; those two places; and the end of the request,
which the next one will read. A fork has none at its end: nobody reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ..core.fingerprint import MARK
from ..core.levels.cached import EditsBlock
from ..core.limits import unmarked
from ..core.messages import (
    JSON,
    Block,
    Compaction,
    Document,
    Image,
    Message,
    Object,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolResult,
    ToolUse,
)

READ_MARKS = 2
MOST_PLACES = 1_000
"""Marked places that are remembered: more than any view has responses between two folds."""


class Place(NamedTuple):
    """A block: message and block in it, from 0."""

    message: int
    block: int


class CacheEdits(Protocol):
    """How a provider that can edit its cache has it written (M3). No public API has fields for it, so who has one says how."""

    def reference(self, id: str) -> Object:
        """Keys of a result by which edits can name it."""

    def block(self, deletes: Sequence[str]) -> Object:
        """The block that deletes the content of these results."""


@dataclass
class Memory:
    """What one conversation's requests have left in the provider's cache."""

    sent: tuple[Message, ...] = ()
    """The messages of the last request."""
    marked: list[Place] = field(default_factory=list)
    """Where marks have stood, rising, as far as the conversation is what it was."""
    edits: dict[EditsBlock, Place] = field(default_factory=dict)
    """Where each block of edits stands: where it was first sent."""


def end_of(messages: Sequence[Message]) -> Place:
    """The last block; (-1, -1) of no message."""
    return Place(len(messages) - 1, len(messages[-1].blocks) - 1) if messages else Place(-1, -1)


def common(before: Sequence[Message], now: Sequence[Message]) -> Place:
    """The last block up to which two requests are the same, cache marks aside; (-1, -1) where nothing is."""
    place = Place(-1, -1)
    for i, (old, new) in enumerate(zip(before, now, strict=False)):
        if old.role != new.role or old.extra != new.extra:
            break
        same = 0
        for a, b in zip(old.blocks, new.blocks, strict=False):
            if a is not b and unmarked(a) != unmarked(b):
                break
            same += 1
        place = Place(i, same - 1) if same else place
        if same < max(len(old.blocks), len(new.blocks)):
            break
    return place


def places_for(memory: Memory, messages: Sequence[Message], *, fork: bool = False) -> list[Place]:
    """Where the marks of a request's messages stand, rising; at most three. Without a memory, as after a restart, the place that the
    request before ended at is guessed: in front of the last response. ``fork``: the last block is an instruction, which gets none."""
    end = end_of(messages)
    if fork:
        end = Place(end.message, end.block - 1) if end.block > 0 else end_of(messages[:-1])
    if memory.sent:
        limit = min(end, common(memory.sent, messages))
        read: list[Place] = [place for place in memory.marked if place <= limit and (fork or place < end)][-READ_MARKS:]
    else:
        last = next((i for i in range(len(messages) - 1, 0, -1) if messages[i].role == "assistant"), 0)
        guessed = markable(messages, end if fork else end_of(messages[:last]))
        read = [] if guessed is None else [guessed]
    own = None if fork else markable(messages, end)
    return sorted({*read, *(() if own is None else (own,))})


def markable(messages: Sequence[Message], at: Place) -> Place | None:
    """The last block up to a place that takes a mark: no thinking, no empty text, no block of a kind that is not known, and nothing of
    a system message, which may be cleared behind it."""
    for i in range(at.message, -1, -1):
        blocks = messages[i].blocks if messages[i].role != "system" else ()
        for k in range(min(at.block, len(blocks) - 1) if i == at.message else len(blocks) - 1, -1, -1):
            if _takes_mark(blocks[k]):
                return Place(i, k)
    return None


def _takes_mark(block: Block) -> bool:
    match block:
        case Text(text):
            return text != ""
        case Compaction(data):
            return bool(data.get("content"))
        case ToolUse() | ToolResult() | Image() | Document() | ServerToolUse() | ServerToolResult():
            return True
        case _:
            return False


def remember(memory: Memory, messages: tuple[Message, ...], places: Sequence[Place], edits: Sequence[EditsBlock]) -> None:
    """Take down what a request leaves in the cache. Edits that are new stand at its end from now on; those that are no longer sent are
    forgotten (M3)."""
    limit = common(memory.sent, messages)
    kept = {place for place in memory.marked if place <= limit}
    memory.marked = sorted(kept.union(places))[-MOST_PLACES:]
    memory.sent = messages
    end = end_of(messages)
    memory.edits = {block: memory.edits.get(block, end) for block in edits}


def put_marks(messages: list[Object], places: Sequence[Place], mark: Object) -> None:
    """Put marks on blocks of messages as they are sent. Changes the list, none of its messages."""
    for i, k in places:
        content = messages[i]["content"]
        if isinstance(content, list) and k < len(content):
            messages[i] = {**messages[i], "content": [*content[:k], with_mark(content[k], mark), *content[k + 1 :]]}


def put_edits(messages: list[Object], edits: dict[EditsBlock, Place], wire: CacheEdits) -> None:
    """Put edits behind the blocks they stand at, and references on all results. Changes the list, none of its messages."""
    for i, message in enumerate(messages):
        content = message["content"]
        if isinstance(content, list) and any(_is_result(block) for block in content):
            messages[i] = {**message, "content": [_referenced(block, wire) for block in content]}
    for block, (i, k) in sorted(edits.items(), key=lambda item: item[1], reverse=True):
        content = messages[i]["content"] if i < len(messages) else None
        if isinstance(content, list):
            messages[i] = {**messages[i], "content": [*content[: k + 1], wire.block(block.deletes), *content[k + 1 :]]}


def _is_result(block: JSON) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _referenced(block: JSON, wire: CacheEdits) -> JSON:
    if not isinstance(block, dict) or block.get("type") != "tool_result":
        return block
    return {**block, **wire.reference(str(block.get("tool_use_id")))}


def with_mark(block: JSON, mark: Object) -> JSON:
    """A block with a mark."""
    return {**block, MARK: mark} if isinstance(block, dict) else block


def without_mark(block: JSON) -> JSON:
    """A block without one."""
    return {key: value for key, value in block.items() if key != MARK} if isinstance(block, dict) else block
