"""The context window: what of it can be used, the four thresholds, and the state that colours every meter (W1–W7, W10).

All numbers are tokens. One place knows the arithmetic; the command line, the page and the engine ask here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from ..errors import PolicyError
from .policy import WindowPolicy

Level: TypeAlias = Literal["ok", "warning", "error", "auto", "blocking"]
SMALL_NUMBERS_FULL_AT = 67_000
"""Auto threshold from which the token numbers of memory, summary and restoration have their full size (W7)."""


class Window(NamedTuple):
    """A context window and its thresholds. ``warning`` is the error threshold too (W3)."""

    context: int
    effective: int
    warning: int
    auto: int
    blocking: int
    auto_enabled: bool = True


class WindowState(NamedTuple):
    """Where a size stands (W5, W6). ``level`` is the most severe of the flags."""

    used: int
    percent_left: int
    above_warning: bool
    above_error: bool
    above_auto: bool
    at_blocking: bool
    level: Level


def half_up(value: float) -> int:
    """Rounding half up, as the specification counts (W7)."""
    return int(value + 0.5) if value >= 0 else -int(-value + 0.5)


def window_of(context: int, max_output: int, policy: WindowPolicy | None = None, *, auto: bool = True, cliff: int | None = None) -> Window:
    """The window of a model under a policy. ``auto``: whether auto compact is on (W3). ``cliff``: prompt size above
    which the model's price rises; it caps the window where the policy says ``cheapest`` (W10).

    Raises PolicyError for a size that is not a positive whole number (W1). Made for windows from 4,096 tokens up (W7).
    """
    policy = policy or WindowPolicy()
    context = _positive("context window", context)
    max_output = _positive("maximum output", max_output)
    if policy.cap_tokens is not None:
        context = min(context, _positive("window cap", policy.cap_tokens))
    if policy.cheapest and cliff is not None:
        context = min(context, cliff)
    scale = min(1.0, context / policy.full_size_tokens)
    reserve = half_up(policy.summary_reserve_tokens * scale)
    effective = max(2, context - min(max_output, reserve))
    threshold = _threshold(effective, policy, scale)
    base = threshold if auto else effective
    warning = max(1, base - half_up(policy.warning_buffer_tokens * scale))
    return Window(context, effective, warning, base, max(1, effective - half_up(policy.blocking_buffer_tokens * scale)), auto)


def _threshold(effective: int, policy: WindowPolicy, scale: float) -> int:
    """The auto-compact threshold; an override only lowers it (W2). It stays at 2 or more, so that a warning fits under it."""
    threshold = effective - half_up(policy.auto_buffer_tokens * scale)
    if policy.threshold_percent is not None:
        threshold = min(threshold, half_up(effective * policy.threshold_percent / 100))
    if policy.threshold_tokens is not None:
        threshold = min(threshold, _positive("threshold", policy.threshold_tokens))
    return max(2, threshold)


def state_of(used: int, window: Window) -> WindowState:
    """Where ``used`` tokens stand in a window: the one function behind every meter (W6)."""
    left = max(0, half_up(100 * (window.auto - used) / window.auto))
    warning, auto, blocking = used >= window.warning, used >= window.auto, used >= window.blocking
    level: Level = "blocking" if blocking else "auto" if auto and window.auto_enabled else "error" if warning else "ok"
    return WindowState(used, left, warning, warning, auto and window.auto_enabled, blocking, level)


def scaled(tokens: int, window: Window) -> int:
    """A token number of the policy as it holds in a small window (W7), at least 1."""
    return max(1, half_up(tokens * min(1.0, window.auto / SMALL_NUMBERS_FULL_AT)))


def _positive(what: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PolicyError(f"the {what} is {value!r}, it has to be a positive whole number of tokens")
    return value
