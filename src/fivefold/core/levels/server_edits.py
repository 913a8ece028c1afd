"""Level 3: what the provider is asked to clear by itself, with each ordinary request (E1–E7). No local change, no extra call.

The fields, version suffixes and headers are Anthropic's (its context-editing and compaction documents, beta). What the server clears it
clears for itself: the client goes on sending the whole view, and thinking that is bound to its prefix stays valid (I7).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..economics import Model
from ..messages import JSON, Object
from ..policy import EditsPolicy
from ..tools import holds_work, purpose_of

EDITING_BETA = "context-management-2025-06-27"
COMPACTION_BETA = "compact-2026-01-12"
CLEAR_THINKING = "clear_thinking_20251015"
CLEAR_TOOL_USES = "clear_tool_uses_20250919"
COMPACT = "compact_20260112"
LEAST_COMPACTION_TRIGGER = 50_000
"""Tokens under which the provider refuses a trigger for its compaction."""
_MOST_APPLIED = 100


class ServerEdits(msgspec.Struct, frozen=True):
    """What goes into one request."""

    edits: tuple[Object, ...]
    """In the order in which they have to stand, thinking first (E2)."""
    betas: tuple[str, ...]
    """Values for the ``anthropic-beta`` header."""
    notes: tuple[str, ...] = ()
    """What in the policy can't do what it says. The same in each request: to be said once (E3)."""

    @property
    def context_management(self) -> Object:
        """The request's field of this name."""
        return {"edits": list(self.edits)}


class Applied(msgspec.Struct, frozen=True):
    """One edit that the server says it made (E6)."""

    type: str
    cleared_tool_uses: int = 0
    cleared_thinking_turns: int = 0
    cleared_input_tokens: int = 0


def config(
    policy: EditsPolicy,
    model: Model,
    *,
    auto_threshold: int | None,
    idle_seconds: float | None,
    thinking: bool,
    redacted: bool,
    signed_block_in_view: bool,
    tool_names: Sequence[str],
) -> ServerEdits | None:
    """The edits for this request; None where there is no strategy, so that the request has no such field (E6).

    ``auto_threshold``: tokens at which level 1 acts, None where auto is off. ``idle_seconds``: since the last response, None where there
    was none. ``thinking``: the model thinks in this request; ``redacted``: what it thinks comes back hidden. ``signed_block_in_view``:
    the view holds a block of the provider's own compaction (L10), beside which none may be asked for (E7). ``tool_names``: the tools of
    the request.
    """
    found: list[Object] = []
    notes: list[str] = []
    if policy.thinking and thinking and not redacted and "clear_thinking" in model.edits:
        found.append(_thinking_edit(policy, idle_seconds))
    if policy.tools != "off" and "clear_tool_uses" in model.edits:
        found.append(_tools_edit(policy, tool_names))
        notes += _tools_notes(policy, auto_threshold)
    betas = [EDITING_BETA] if found else []
    if policy.compaction and "threshold" in model.compaction and not signed_block_in_view:
        value = max(LEAST_COMPACTION_TRIGGER, policy.trigger_tokens)
        found.append({"type": COMPACT, "trigger": {"type": "input_tokens", "value": value}})
        betas.append(COMPACTION_BETA)
        notes += _compaction_notes(policy, value, auto_threshold)
    return ServerEdits(tuple(found), tuple(betas), tuple(notes)) if found else None


def _thinking_edit(policy: EditsPolicy, idle_seconds: float | None) -> Object:
    """All thinking is kept while the cache may hold it, one turn's after a longer pause (E4)."""
    idle = idle_seconds is not None and idle_seconds > policy.idle_minutes * 60
    return {"type": CLEAR_THINKING, "keep": {"type": "thinking_turns", "value": 1} if idle else "all"}


def _tools_edit(policy: EditsPolicy, tool_names: Sequence[str]) -> Object:
    """Results, or results and inputs with edit tools left out (E5): what was written to a file is known from the input alone. Lists of
    what is to be done, plans and answers of other agents are left out of both (M1)."""
    uses = policy.tools == "uses"
    kept = dict.fromkeys(name for name in tool_names if holds_work(name) or (uses and purpose_of(name) in ("edit", "write")))
    edit: Object = {
        "type": CLEAR_TOOL_USES,
        "trigger": {"type": "input_tokens", "value": policy.trigger_tokens},
        "keep": {"type": "tool_uses", "value": policy.keep_results},
    }
    least = policy.trigger_tokens - policy.target_tokens
    if least > 0:
        edit["clear_at_least"] = {"type": "input_tokens", "value": least}
    if uses:
        edit["clear_tool_inputs"] = True
    if kept:
        edit["exclude_tools"] = list(kept)
    return edit


def _tools_notes(policy: EditsPolicy, auto_threshold: int | None) -> list[str]:
    notes = _never_fires("clearing of tool results", policy.trigger_tokens, auto_threshold)
    if policy.target_tokens >= policy.trigger_tokens:
        notes.append(
            f"edits.target_tokens is {policy.target_tokens:,}, not under edits.trigger_tokens ({policy.trigger_tokens:,}): "
            "no least amount to clear is asked for, and the cache may be broken for little"
        )
    return notes


def _compaction_notes(policy: EditsPolicy, value: int, auto_threshold: int | None) -> list[str]:
    notes = _never_fires("compaction by the provider", value, auto_threshold)
    if value > policy.trigger_tokens:
        notes.append(f"edits.trigger_tokens is {policy.trigger_tokens:,}: the provider compacts from {value:,} on and not earlier")
    return notes


def _never_fires(what: str, trigger: int, auto_threshold: int | None) -> list[str]:
    if auto_threshold is None or trigger < auto_threshold:
        return []
    return [f"{what} is set to start at {trigger:,} tokens, auto compaction at {auto_threshold:,}: the former can never happen (E3)"]


def applied(context_management: JSON) -> tuple[Applied, ...]:
    """What the server says it cleared, from ``context_management`` of a response or of the last event of a stream (E6). What does not
    have the shape is passed over; a count that is none is 0."""
    listed = context_management.get("applied_edits") if isinstance(context_management, dict) else None
    if not isinstance(listed, list):
        return ()
    return tuple(
        Applied(kind, _count(edit, "cleared_tool_uses"), _count(edit, "cleared_thinking_turns"), _count(edit, "cleared_input_tokens"))
        for edit in listed[:_MOST_APPLIED]
        if isinstance(edit, dict) and isinstance(kind := edit.get("type"), str)
    )


def _count(edit: Object, key: str) -> int:
    value = edit.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
