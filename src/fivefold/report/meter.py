"""Words and shapes shared by the terminal and the page: numbers, bars, colours."""

from __future__ import annotations

from collections.abc import Sequence

from .model import WindowNumbers

LEVEL_WORDS = {
    "ok": "room left",
    "error": "running low",
    "auto": "over the auto-compact threshold",
    "blocking": "at the blocking limit",
}
SOURCE_WORDS = {
    "usage": "the provider's count",
    "usage+estimate": "the provider's count and an estimate of what came after",
    "calibrated": "an estimate, calibrated",
    "estimate": "an estimate",
}
EIGHTHS = " ▏▎▍▌▋▊▉"
STEPS = "▁▂▃▄▅▆▇█"


def tokens(count: int) -> str:
    """A token count as people say it: 950, 12.3k, 1.05M."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k"
    return f"{count / 1_000:.0f}k" if count < 999_500 else f"{count / 1_000_000:.2f}M"


def size(count: int) -> str:
    """A number of bytes: 812 B, 4.2 KB, 3.1 MB."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.1f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def bar(share: float, width: int) -> str:
    """A bar of eighths of a character; at least the thinnest one where there is anything."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    if share > 0:
        eighths = max(1, eighths)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[rest] if rest else "")).ljust(width)


def ruler(used: int, window: WindowNumbers, width: int) -> tuple[str, str]:
    """The meter of a window: a bar of what is used, and beneath it marks at the thresholds (w, a, b)."""
    marks = [" "] * width
    for name, at in (("w", window.warning), ("a", window.auto), ("b", window.blocking)):
        marks[min(width - 1, at * width // window.context)] = name
    line = bar(min(1.0, used / window.context), width).rstrip()
    return line + "·" * (width - len(line)), "".join(marks).rstrip()


def columns(values: Sequence[int], ceiling: int) -> str:
    """One character a value, its height the share of ``ceiling``."""
    top = max(ceiling, 1)
    return "".join(STEPS[max(0, min(7, value * 8 // top))] for value in values)
