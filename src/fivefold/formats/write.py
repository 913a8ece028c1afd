"""A conversation's view written so that other programs go on from it (Z4). fivefold's own sessions are the store's to write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, assert_never

from ..core.entries import Head
from ..core.log import Log
from ..core.view import View
from . import write_anthropic, write_claude_code, write_openai

Target: TypeAlias = Literal["anthropic", "openai", "claude-code"]
TARGETS: tuple[Target, ...] = ("anthropic", "openai", "claude-code")


def render(
    conversation_head: Head,
    log: Log,
    view: View,
    to: Target,
    *,
    source_lines: Iterable[bytes] | None = None,
    now: float | None = None,
) -> bytes:
    """The file for a target, whole; the same input gives the same bytes.

    ``view`` is that of ``log``. ``source_lines``: the lines of the file that the conversation was read from; those of a
    Claude Code session stand unchanged in front of what is written for Claude Code, others are not looked at. ``now``: when
    it was compacted, in seconds since the epoch; without it the time of the last entry. Raises InputError where a value in
    it is nested too deep to write.
    """
    match to:
        case "anthropic":
            return write_anthropic.render(conversation_head, view)
        case "openai":
            return write_openai.render(conversation_head, view)
        case "claude-code":
            return write_claude_code.render(conversation_head, log, view, source_lines=source_lines, now=now)
        case _:
            assert_never(to)
