"""What stands in for the past in a Codex rollout after a compaction.

Newer versions record it whole (``replacement_history``). Older ones record the summary only (``message``); there Codex
itself goes on with the users' own messages, the newest ones up to 20,000 tokens of four bytes each, and the summary behind
them. (Codex's ``core/src/compact.rs``.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from ..core.entries import NO_RAW, Entry
from ..core.messages import JSON, Compaction, Message, Text, ToolResult
from .common import Ids
from .responses_items import decode

KEPT_BYTES = 20_000 * 4
"""How much of the users' own messages older versions keep."""


def replacement_stand_ins(history: Sequence[JSON], summary: str, ids: Ids, line: int, is_meta: Callable[[Message], bool]) -> list[Entry]:
    """The entries of a recorded replacement. The summary is the provider's compaction item, or the message whose text the
    record repeats; a history scrubbed of encrypted items has none."""
    found: list[Entry] = []
    for item in history:
        message = decode(item)
        is_summary = any(isinstance(block, Compaction) for block in message.blocks) or bool(summary and _text(message.blocks) == summary)
        found.append(
            Entry(
                id=ids(item.get("id") if isinstance(item, dict) else None),
                kind=message.role,
                blocks=message.blocks,
                meta=is_summary or is_meta(message),
                summary=is_summary,
                bare=message.bare,
                extra=message.extra,
                line=line,
            )
        )
    return found


def older_stand_ins(entries: Iterable[Entry], summary: str, ids: Ids, line: int) -> list[Entry]:
    """Of the entries in view: instructions from before the first word of a person, the persons' own messages; then the summary."""
    opening: list[Entry] = []
    said: list[Entry] = []
    for entry in entries:
        if entry.meta and not entry.summary and not said and entry.kind in ("system", "user"):
            opening.append(entry)
        elif entry.kind == "user" and not entry.meta and not any(isinstance(block, ToolResult) for block in entry.blocks):
            said.append(entry)
    copies = [msgspec.structs.replace(entry, id=ids(entry.id), raw=NO_RAW) for entry in [*opening, *_newest(said)]]
    if summary:
        copies.append(Entry(id=ids(), kind="user", blocks=(Text(summary),), meta=True, summary=True, line=line))
    return copies


def _newest(entries: Sequence[Entry]) -> list[Entry]:
    kept: list[Entry] = []
    left = KEPT_BYTES
    for entry in reversed(entries):
        left -= len(_text(entry.blocks).encode())
        if left < 0:
            break
        kept.append(entry)
    return kept[::-1]


def _text(blocks: Iterable[object]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Text))
