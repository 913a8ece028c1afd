"""What the boundary lines of Claude Code's compactions say; every key is optional, snake or camel case."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ..core.messages import JSON, Object
from .claude_lines import Node
from .source import loads

MAX_KEPT = 20_000
"""Lines of a kept segment that are walked; what is kept is some messages, so a longer one is damage (H4)."""


class Compaction(NamedTuple):
    """A full compaction as recorded. Tokens are None where they are not told."""

    trigger: str
    tokens_before: int | None
    tokens_after: int | None
    head: str | None
    """First uuid of the segment that was kept in view, with ``tail`` the last."""
    tail: str | None
    uuids: tuple[str, ...]
    """Kept lines that are named one by one."""


def compaction_of(node: Node) -> Compaction:
    """The metadata of a boundary line; of one without any, or with what can't be read, nothing is known."""
    data = _object(node.compact_metadata) or _object(node.wire_metadata)
    segment = _dict(data, "preservedSegment", "preserved_segment")
    messages = _dict(data, "preservedMessages", "preserved_messages")
    uuids = [*_texts(_get(messages, "uuids")), *_texts(_get(messages, "allUuids", "all_uuids"))]
    trigger = data.get("trigger")
    return Compaction(
        trigger if isinstance(trigger, str) else "",
        _whole(_get(data, "preTokens", "pre_tokens")),
        _whole(_get(data, "postTokens", "post_tokens")),
        _text(_get(segment, "headUuid", "head_uuid")),
        _text(_get(segment, "tailUuid", "tail_uuid")),
        tuple(dict.fromkeys(uuids)),
    )


def cleared_ids(node: Node) -> tuple[str, ...]:
    """Ids of the tool calls whose results a microcompact boundary says were cleared."""
    data = _object(node.microcompact_metadata)
    return tuple(_texts(_get(data, "compactedToolIds", "compacted_tool_ids")))


def segment(compaction: Compaction, up: list[int], place: dict[str, int]) -> list[int]:
    """Places of the lines from the head to the tail of the kept segment, both included, found by walking up from the
    tail; where the head is not met on the way, the two ends alone."""
    tail = place.get(compaction.tail or "", -1)
    head = place.get(compaction.head or "", -1)
    walk: list[int] = []
    i = tail
    while head >= 0 and i > head and len(walk) < MAX_KEPT:
        walk.append(i)
        i = up[i]
    if head >= 0 and i == head:
        return [*walk, head]
    return [at for at in (head, tail) if at >= 0]


def kept_places(node: Node, up: list[int], place: dict[str, int]) -> list[int]:
    """Places of all lines that a boundary says stay in view, as far as they are in the file."""
    compaction = compaction_of(node)
    named = (place.get(uuid, -1) for uuid in compaction.uuids)
    return sorted({*segment(compaction, up, place), *(at for at in named if at >= 0)})


def _object(raw: msgspec.Raw) -> Object:
    try:
        value = loads(bytes(raw) or b"null")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _get(data: Object, *names: str) -> JSON:
    return next((data[name] for name in names if name in data), None)


def _dict(data: Object, *names: str) -> Object:
    value = _get(data, *names)
    return value if isinstance(value, dict) else {}


def _text(value: JSON) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: JSON) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _whole(value: JSON) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15 else None
