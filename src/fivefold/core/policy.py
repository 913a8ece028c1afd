"""The one policy: every number of the specification that a user may set, typed, validated, frozen (P1).

Defaults are the specification's; each field says which rule it belongs to. ``Policy.of`` checks names and ranges and
refuses by name; where the values come from (file, environment, flags, code) is the shell's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ..errors import PolicyError
from .messages import JSON

COMPACTABLE = ("read", "shell", "grep", "glob", "web_search", "web_fetch", "edit", "write")
"""Kinds of tools whose results may be cleared (M1)."""


_POSITIVE = frozenset(
    {
        "cap_tokens", "threshold_tokens", "keep_results", "max_failures", "full_size_tokens", "tail_rounds",
        "first_tokens", "grow_tokens", "max_tokens", "max_recoveries", "min_output_tokens", "trigger_tokens",
    }
)  # fmt: skip


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A section of the policy: counts are whole and not negative, shares lie over 0 and up to 100."""

    def __post_init__(self) -> None:
        """Refuse what is out of range, however the section was made."""
        fields: dict[str, object] = msgspec.to_builtins(self)
        section = type(self).__name__.removesuffix("Policy").lower()
        for name, value in fields.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            place = f"policy: {section}.{name}"
            if name.endswith("percent") and not 0 < value <= 100:
                raise PolicyError(f"{place} is {value}, it has to be over 0 and at most 100")
            if name in _POSITIVE and value < 1:
                raise PolicyError(f"{place} is {value}, it has to be a positive whole number")
            if value < 0:
                raise PolicyError(f"{place} is {value}, it cannot be negative")


class WindowPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 2. All in tokens."""

    cap_tokens: int | None = None
    """Cap on the context window, before the reserve (W1)."""
    summary_reserve_tokens: int = 20_000
    """Kept free for a summary, at most the model's maximum output (W1)."""
    auto_buffer_tokens: int = 13_000
    """Distance of the auto-compact threshold from the effective window (W2)."""
    warning_buffer_tokens: int = 20_000
    """Distance of the warning and error thresholds from the threshold (W3)."""
    blocking_buffer_tokens: int = 3_000
    """Distance of the blocking limit from the effective window (W4)."""
    full_size_tokens: int = 100_000
    """Below this window the four buffers shrink in proportion (W7)."""
    threshold_percent: float | None = None
    """Override of the auto threshold as a percentage of the effective window; may only lower it (W2)."""
    threshold_tokens: int | None = None
    """Override of the auto threshold in tokens; may only lower it (W2)."""
    cheapest: bool = False
    """Stay under the lowest price cliff of the model (W10)."""


class MicroPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 4."""

    compactable: tuple[str, ...] = COMPACTABLE
    time_clear: bool = False
    """Path 1, clear when the cache has expired for certain (M2)."""
    idle_minutes: int = 60
    keep_results: int = 5
    edits_trigger_results: int = 20
    edits_keep_results: int = 5
    min_gain_tokens: int = 20_000
    """Least gain of one clearing (M8)."""
    pays: bool = False
    """Clear where the money model says that it pays (M9)."""
    result_percent: float = 25.0
    """A single result over this share of the effective window is shown head and tail (M10)."""
    round_percent: float = 50.0
    """All results of one round together hold at most this share (M10)."""


class SnipPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 10, X3."""

    superseded: bool = True
    """Fold results that a later identical read supersedes, where a fold is due anyway."""
    min_gain_tokens: int = 20_000
    """Least that folding superseded results has to free, as for a clearing (M8)."""


class AutoPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 3."""

    enabled: bool = True
    """Levels 1, 2 and 4, everything unasked (A3)."""
    reactive_only: bool = False
    max_failures: int = 3
    """Failures in a row that open the breaker (A6)."""
    floor_percent: float = 1.0
    """Growth, in percent of the window, before another attempt (A10)."""
    headroom_percent: float = 20.0
    """Success leaves this share of the threshold free (A11)."""
    cold_percent: float = 50.0
    """Share of the threshold from which a fold is made on a dead cache (A12)."""
    min_gain_percent: float = 10.0
    """A full compaction that frees less of the view is no success: it would be made again at once (A7, A11)."""
    cooldown_seconds: int | None = None
    """After so long an open breaker is tried once more; None: it waits for something to change (A6)."""


class MemoryPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 7. Tokens shrink with small windows (W7)."""

    first_tokens: int = 10_000
    grow_tokens: int = 5_000
    tool_calls: int = 3
    wait_seconds: int = 15
    stale_seconds: int = 60
    keep_tokens: int = 10_000
    keep_entries: int = 5
    keep_max_tokens: int = 40_000
    section_tokens: int = 2_000
    """Most that one section of the memory brings into a summary (S4, S9)."""


class SummaryPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 8."""

    max_tokens: int = 8_000
    """Size cap of a summary (L12)."""
    max_retries: int = 3
    drop_percent: float = 20.0
    """Rounds dropped where the gap is unknown (L7)."""
    tail_rounds: int = 3
    """Floor of the verbatim tail (L14)."""
    method: Literal["structural", "model", "native"] = "structural"
    """Who writes summaries (A4): code alone (L6), a model (L1), the provider's own compaction (L10)."""
    model: str | None = None
    """Another, cheaper model for them; None: the conversation's own (L11)."""
    fork: bool = True
    """Ask with the conversation's own prefix first, so that the provider's cache is read (L1)."""
    keep_tokens: int = 10_000
    """Verbatim tail behind a model's summary, at least; shrinks with small windows (W7)."""
    keep_entries: int = 5
    """Entries with text in that tail, at least."""
    keep_max_tokens: int = 40_000
    """Where the tail stops growing."""
    people_tokens: int = 20_000
    """People's words beside the cap (L12)."""
    instructions: tuple[str, ...] = ()
    """The project's own, behind the user's and before the hooks' (L5)."""


class RestorePolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 9."""

    files: int = 5
    file_tokens: int = 5_000
    files_tokens: int = 50_000
    skill_tokens: int = 5_000
    skills_tokens: int = 25_000
    hook_tokens: int = 5_000
    """Text that hooks put back, all together (C5)."""


class EditsPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 5."""

    tools: Literal["off", "results", "uses"] = "off"
    """Server-side clearing of tool results, or of results and inputs with edit tools left out (E5)."""
    thinking: bool = True
    """Server-side clearing of thinking (E4, E5)."""
    trigger_tokens: int = 180_000
    target_tokens: int = 40_000
    """What is to be left; ``clear_at_least`` is the trigger less this (E3)."""
    keep_results: int = 3
    idle_minutes: int = 60
    """After so long one thinking turn is kept instead of all (E4)."""
    compaction: bool = False
    """Ask for the provider's threshold compaction (E7)."""


class ReactivePolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 6."""

    enabled: bool = True
    media: bool = True
    """Recover from refused images and documents (R4, R10)."""
    max_recoveries: int = 3
    """In a row without a response between them (R9)."""
    min_output_tokens: int = 1_024
    """The output limit is not lowered under this (R2)."""


class CollapsePolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 10, X4. Shares of the effective window."""

    enabled: bool = False
    stage_percent: float = 50.0
    """From here on finished stretches are summarised beforehand."""
    commit_percent: float = 90.0
    block_percent: float = 95.0
    stretch_tokens: int = 10_000
    """Least size of a stretch that is worth a summary of its own; shrinks with small windows."""


class ThinkingPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 11, I7: what may be done about thinking that is bound to its prefix."""

    drop_setting: bool = False
    """Let the provider drop what no longer fits, where it offers that."""


class PinPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 10, X7."""

    budget_percent: float = 10.0
    """All pins together hold at most this share of the auto threshold."""


class HooksPolicy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Section 14, P2."""

    seconds: int = 30
    """A hook that has not answered by then counts as failed."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it. Immutable; a change makes a new one: ``Policy.of({"window": {"cap_tokens": 64000}})``."""

    window: WindowPolicy = WindowPolicy()
    snip: SnipPolicy = SnipPolicy()
    micro: MicroPolicy = MicroPolicy()
    edits: EditsPolicy = EditsPolicy()
    collapse: CollapsePolicy = CollapsePolicy()
    auto: AutoPolicy = AutoPolicy()
    reactive: ReactivePolicy = ReactivePolicy()
    memory: MemoryPolicy = MemoryPolicy()
    summary: SummaryPolicy = SummaryPolicy()
    restore: RestorePolicy = RestorePolicy()
    thinking: ThinkingPolicy = ThinkingPolicy()
    pins: PinPolicy = PinPolicy()
    hooks: HooksPolicy = HooksPolicy()

    @classmethod
    def of(cls, values: Mapping[str, JSON]) -> Policy:
        """A policy of these values over the defaults. Raises PolicyError naming the field that is unknown or out of range."""
        try:
            policy = msgspec.convert(dict(values), cls)
        except msgspec.ValidationError as error:
            raise PolicyError(f"policy: {error}") from None
        return policy

    def __post_init__(self) -> None:
        """Refuse numbers that contradict each other."""
        window = self.window
        if window.blocking_buffer_tokens >= window.auto_buffer_tokens:
            raise PolicyError(
                f"policy: window.blocking_buffer_tokens is {window.blocking_buffer_tokens}, it has to be under "
                f"window.auto_buffer_tokens ({window.auto_buffer_tokens})"
            )
