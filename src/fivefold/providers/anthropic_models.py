"""What Anthropic's models take in a request and the bundled data do not tell, by line and version of the name.

Source: the provider's pages on thinking, mid-conversation system messages and errors, and its SDK's types (facts: API 1.3, 3.1, 6).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..core.messages import Object
from .names import parse_name

_NAME = re.compile(r"claude-([a-z]+)-(\d)(?:-(\d))?(?!\d)")
_MID_SYSTEM = {"fable": (5, 0), "mythos": (5, 0), "opus": (4, 8)}
"""From which version of a line on a system message may stand inside the conversation. The page says so of these lines; other tables
name Sonnet and Haiku too, but what is refused costs more than a reminder on the user's side."""
_ALWAYS_THINKS = {"fable": (5, 0), "mythos": (5, 0), "opus": (5, 5)}
_THINKS_UNASKED = {"opus": (5, 0), "sonnet": (5, 0), "haiku": (5, 5)}
_BETWEEN_TOOLS = {"sonnet": (5, 5)}
"""Thinking is turned off by another word than ``disabled``."""


class _Version(NamedTuple):
    line: str
    number: tuple[int, int]

    def is_from(self, table: dict[str, tuple[int, int]]) -> bool:
        return self.line in table and self.number >= table[self.line]


def _version(name: str) -> _Version:
    for spelling in parse_name(name).spellings:
        if found := _NAME.search(spelling):
            return _Version(found[1], (int(found[2]), int(found[3] or 0)))
    return _Version("mythos", (5, 0)) if "claude-mythos-preview" in name else _Version("", (0, 0))


def has_mid_system(name: str) -> bool:
    """Whether a model takes a system message inside the conversation (V5)."""
    return _version(name).is_from(_MID_SYSTEM)


def lowest_thinking(name: str) -> Object:
    """The settings with which a model thinks least (L1). Models that think only when asked get none; so do those of other makers."""
    version = _version(name)
    if version.is_from(_ALWAYS_THINKS):
        return {"output_config": {"effort": "low"}}
    if version.is_from(_BETWEEN_TOOLS):
        return {"thinking": {"type": "between_tools"}, "output_config": {"effort": "low"}}
    return {"thinking": {"type": "disabled"}} if version.is_from(_THINKS_UNASKED) else {}


def default_thinking(name: str) -> Object:
    """The ``thinking`` field that says what the model does without one: binding controls are written into it (I7)."""
    version = _version(name)
    unasked = version.is_from(_ALWAYS_THINKS) or version.is_from(_THINKS_UNASKED)
    return {"type": "adaptive"} if unasked else {}
