"""The numbers of other systems' policies, for comparison (P5), as published or read in their releases of 2026-11.

Data only: what each does at which size. A replay gives them the engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

PresetName: TypeAlias = Literal["opencode", "codex", "observation-masking", "summarize-only", "truncate", "none"]


class Preset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a system folds, what it folds, and what it keeps verbatim. Tokens, unless the name says otherwise."""

    name: PresetName
    does: str
    """In a sentence, for tables."""
    trigger_percent: float | None = None
    """Share of the raw context window at which it folds; None: only when the reserve is reached, or never."""
    reserve_tokens: int | None = None
    """Kept free below the window (OpenCode's ``reserved``); the smaller of this and the maximum output."""
    clear_protect_tokens: int | None = None
    """The newest tool results, in tokens, that clearing leaves alone."""
    clear_min_gain_tokens: int | None = None
    """Least that a clearing has to free."""
    clear_keep_results: int | None = None
    """The newest results, counted, that masking leaves alone."""
    clear_batch_results: int | None = None
    """Results masked at once, so that the prefix breaks rarely."""
    protect_user_turns: int = 0
    """The newest user turns that clearing leaves alone."""
    summary: bool = False
    """Whether a model writes a summary."""
    tail_tokens: int | None = None
    """Verbatim tail, at most."""
    tail_min_tokens: int | None = None
    tail_percent: float | None = None
    """Verbatim tail as a share of the usable window, within the two above."""
    user_tokens: int | None = None
    """People's messages that are kept, newest first."""


PRESETS: Mapping[PresetName, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="opencode",
            does="clears older tool output, then summarises and keeps whole turns as a tail",
            reserve_tokens=20_000,
            clear_protect_tokens=40_000,
            clear_min_gain_tokens=20_000,
            protect_user_turns=2,
            summary=True,
            tail_tokens=15_000,
            tail_min_tokens=2_000,
            tail_percent=25,
        ),
        Preset(
            name="codex",
            does="summarises everything and keeps people's messages",
            trigger_percent=90,
            summary=True,
            user_tokens=20_000,
        ),
        Preset(
            name="observation-masking",
            does="masks all but the newest tool results, a batch at a time",
            clear_keep_results=10,
            clear_batch_results=10,
        ),
        Preset(name="summarize-only", does="summarises everything at the auto threshold", summary=True),
        Preset(name="truncate", does="drops the oldest rounds at the auto threshold"),
        Preset(name="none", does="sends everything until the provider refuses it"),
    )
}
"""By name. ``observation-masking``, ``summarize-only`` and ``truncate`` are ideas rather than one system's releases: where
no number is given the policy's own threshold holds."""
