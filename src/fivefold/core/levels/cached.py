"""Level 2, path 2: old results deleted in the provider's cache and left as they are here (M3).

No public API has fields for this today (facts: neither ``cache_edits`` nor ``cache_reference`` is in Anthropic's SDK 2.14), so this is
used only with a provider that declares the capability, and how it is written on the wire is that provider's part. Here is what has to
hold wherever it exists: results are known to the server by a reference; an edit names references and stands at a place in the
conversation; an edit that was sent stands at that same place in every later request, or the server's cache and ours part.

    register ─ results that are new ─► live ─ over the trigger ─► queued ─ consume ─► offered ─ pin ─► pinned
                                                                    ▲                    │
                                                                    └─ not sent: again ──┘

``offered`` is taken along by the next ``consume`` until ``pin`` says that a request with it was really sent, so a request that failed
before loses no edit. All functions are pure: each gives a new state. A turn costs what is new in it (M7): ``live`` never outgrows the
larger of trigger and keep, and the list of pins is copied only when one is added, once for (trigger - keep) results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..policy import MicroPolicy
from ..sources import is_main


class Reference(msgspec.Struct, frozen=True, array_like=True):
    """A result of a compactable tool (M1)."""

    id: str
    """Its tool-use id as it is sent, unique in the request (I10)."""
    order: int
    """Where it stands: any number that rises from result to result, such as its position in the log."""


class EditsBlock(msgspec.Struct, frozen=True, array_like=True):
    """Edits that stand at one place."""

    at: str
    """Id of the entry that the block stands in, behind what the entry says itself."""
    deletes: tuple[str, ...]
    """Ids of the results whose content goes, oldest first."""


class CachedEdits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state, of one conversation's main thread and one life of its cache."""

    seen: int = -1
    """The order of the last result registered."""
    live: tuple[Reference, ...] = ()
    """Registered, and still in the cache as they are."""
    queued: tuple[str, ...] = ()
    """To be deleted with the next request."""
    offered: EditsBlock | None = None
    """Attached to a request of which is not known yet that it was sent."""
    pinned: tuple[EditsBlock, ...] = ()
    """Sent; to be sent again in every request at the same place."""

    @property
    def blocks(self) -> tuple[EditsBlock, ...]:
        """What the next request carries once ``consume`` was called for it, in order of sending."""
        return self.pinned if self.offered is None else (*self.pinned, self.offered)

    @property
    def references(self) -> frozenset[str]:
        """The results that carry a reference in every request, deleted ones too: their bytes may not change."""
        deleted = (id for block in self.blocks for id in block.deletes)
        return frozenset((*(ref.id for ref in self.live), *self.queued, *deleted))


class Consumed(NamedTuple):
    """A state, and the edits that are new in the next request; None where there are none."""

    state: CachedEdits
    edits: EditsBlock | None


def register(state: CachedEdits, results: Sequence[Reference], policy: MicroPolicy, *, source: str = "main") -> CachedEdits:
    """The state with these results, oldest first. Those that it has seen are passed over, so a turn that is tried again adds nothing; so
    are all of a sub-agent or a fork, whose results never enter. Over the trigger, the oldest down to what is kept are queued."""
    if not is_main(source):
        return state
    live, seen = list(state.live), state.seen
    for result in results:
        if result.order > seen:
            live.append(result)
            seen = result.order
    if seen == state.seen:
        return state
    surplus = len(live) - policy.edits_keep_results if len(live) > policy.edits_trigger_results else 0
    queued = tuple(result.id for result in live[: max(0, surplus)])
    return msgspec.structs.replace(state, seen=seen, live=tuple(live[max(0, surplus) :]), queued=state.queued + queued)


def consume(state: CachedEdits, at: str) -> Consumed:
    """What to attach to the next request, in the entry ``at``: its last one that the user's side has. What was offered before and never
    pinned comes along, at the new place."""
    left = state.offered.deletes if state.offered is not None else ()
    deletes = left + state.queued
    if not deletes:
        return Consumed(state, None)
    block = EditsBlock(at, deletes)
    return Consumed(msgspec.structs.replace(state, queued=(), offered=block), block)


def pin(state: CachedEdits) -> CachedEdits:
    """After the request was really sent: what it offered stands at its place for good. Nothing offered: the same state."""
    if state.offered is None:
        return state
    return msgspec.structs.replace(state, offered=None, pinned=(*state.pinned, state.offered))


def dropped() -> CachedEdits:
    """The state after a restart, an expired cache, a full compaction (M6), or any other change before the pins: all of them go together,
    results are whole again at the server, and those of the view are registered anew."""
    return CachedEdits()
