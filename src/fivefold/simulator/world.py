"""The world as it is for one simulator: models with their limits, the clock, what an account is allowed (U2)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..core.economics import MediaLimits, Model
from ..errors import FivefoldError, SimulatorError
from ..providers.models import Override, load_models, lookup
from .facts import BlockFacts, Reader
from .items import ItemReader
from .refusal import Refused
from .tokens import counter_for

BODY_LIMIT = 32_000_000
"""Bytes of a request where the model's data name none."""
_NO_LIMITS = MediaLimits(600, 8000, 21, 2000, 10_000_000)
_LAST_OLD = {"opus": (4, 1), "sonnet": (4, 5), "haiku": (4, 5)}
"""The last model of each line that keeps the thinking of the last turn alone."""
_MID_SYSTEM = {"fable": (5, 0), "mythos": (5, 0), "opus": (4, 8), "sonnet": (5, 0), "haiku": (5, 5)}
"""From which model of a line on ``role: "system"`` is taken inside a conversation."""
_NO_FORCING = {"opus": (5, 5), "sonnet": (5, 5), "fable": (5, 1), "mythos": (5, 1)}
_ALWAYS_THINKS = {"fable": (5, 0), "mythos": (5, 0), "opus": (5, 5)}


class Limits(NamedTuple):
    """What a model takes and does. ``adaptive``, ``budget``, ``off``: which kinds of thinking may be asked for."""

    model: Model
    reader: Reader
    items: ItemReader
    """The same for OpenAI's messages and items."""
    strips_thinking: bool
    """Whether only the last turn's thinking is kept unless asked otherwise."""
    truncates: bool
    """Input and output over the window are taken, and the output ends there (from 4.5 on)."""
    mid_system: bool
    forced_choice: bool
    adaptive: bool
    budget: bool
    off: bool
    thinks_by_default: bool
    hides_thinking: bool
    """Whether the text of thinking is left out unless asked for (from 4.7 on)."""
    parts: dict[bytes, tuple[BlockFacts, ...]]
    """Tools and system prompts that were read, by the digest of their bytes."""
    chains: dict[bytes, bytes]
    """The digest of a conversation with one message more, by that of the conversation and of the message's bytes."""

    @property
    def media(self) -> MediaLimits:
        """Its limits of images and documents."""
        return self.model.media or _NO_LIMITS

    @property
    def body_limit(self) -> int:
        """Bytes of a request's body."""
        return self.model.body_limit or BODY_LIMIT


class World:
    """Models by name, the clock, and what the account is.

    ``windows``: context windows in tokens by model name, over the bundled data; an unknown name becomes a model of that window.
    ``overrides``: more about a model, as in a user's model file. ``clock``: seconds since the epoch. ``new_account``: whether
    thinking is bound on the models that bind it on new accounts only (facts: API section 1.2).
    """

    def __init__(
        self,
        *,
        windows: Mapping[str, int] | None = None,
        overrides: Mapping[str, Override] | None = None,
        clock: Callable[[], float] = time.time,
        new_account: bool = True,
        keys: tuple[str, ...] = (),
    ) -> None:
        self._windows = dict(windows or {})
        self._overrides = dict(overrides or {})
        self.clock = clock
        self.new_account = new_account
        self.keys = keys
        """API keys that are taken; empty: any that is not empty."""
        self._limits: dict[str, Limits] = {}
        self._count = 0
        for name, window in self._windows.items():
            try:
                lookup(name, overrides=self._overrides, window=window)
            except FivefoldError as error:
                raise SimulatorError(str(error)) from error

    def next_id(self, prefix: str) -> str:
        """A new id, such as ``msg_0000000001``; ids of one simulator count up, so that two runs are alike."""
        self._count += 1
        return f"{prefix}_{self._count:010d}"

    def names(self, provider: str = "anthropic") -> list[str]:
        """The models that are listed: those of the bundled table that this provider serves, and those that were given."""
        return sorted({name for name, model in load_models().items() if model.provider == provider} | self._windows.keys())

    def limits(self, name: str) -> Limits:
        """What this model takes. Raises Refused (404) where nobody knows it."""
        found = self._limits.get(name)
        if found is None:
            try:
                model = lookup(name, overrides=self._overrides, window=self._windows.get(name))
            except FivefoldError as error:
                raise Refused(404, "not_found_error", f"model: {name}") from error
            found = self._limits[name] = limits_of(model)
        return found


def limits_of(model: Model) -> Limits:
    """What a model takes, from its data and from what the API says of its line and version."""
    line, version = _version(model.id)
    claude = line in _MID_SYSTEM or model.id.startswith("claude")
    return Limits(
        model=model,
        reader=Reader(counter_for(model.generation), model.image_cap),
        items=ItemReader(counter_for(model.generation), model.image_cap),
        strips_thinking=line in _LAST_OLD and version <= _LAST_OLD[line],
        truncates=not claude or version >= (4, 5),
        mid_system=not claude or _from(_MID_SYSTEM, line, version),
        forced_choice=not _from(_NO_FORCING, line, version),
        adaptive=not claude or version >= (4, 6),
        budget=version <= (4, 6),
        off=not _from(_ALWAYS_THINKS, line, version),
        thinks_by_default=claude and version >= (5, 0),
        hides_thinking=claude and version >= (4, 7),
        parts={},
        chains={},
    )


def _version(id: str) -> tuple[str, tuple[int, int]]:
    """``claude-opus-4-8`` → ("opus", (4, 8)); ``claude-3-5-haiku`` → ("haiku", (3, 5)); no Claude model: ("", (9, 9))."""
    if found := re.match(r"claude-([a-z]+)-(\d+)(?:-(\d{1,2})(?!\d))?", id):
        return found[1], (int(found[2]), int(found[3] or 0))
    if found := re.match(r"claude-(\d+)(?:-(\d))?-([a-z]+)", id):
        return found[3], (int(found[1]), int(found[2] or 0))
    return ("mythos", (5, 0)) if id == "claude-mythos-preview" else ("", (9, 9))


def _from(table: Mapping[str, tuple[int, int]], line: str, version: tuple[int, int]) -> bool:
    return line in table and version >= table[line]
