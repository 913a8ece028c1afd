"""Anthropic's prompt cache: what a request reads from it and writes to it (facts: API section 2).

An entry is the digest of all that stands before a mark: tools, system prompt, messages, in this order. It is written at marks only and
read at the longest prefix that is found at a mark or up to 20 positions before one, where neighbouring calls, and neighbouring results,
are one position. What else the API says changes the prompt goes into the digest from the part on that it invalidates.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from itertools import accumulate
from typing import NamedTuple

import msgspec

from ..core.economics import CacheRules
from .asked import Asked
from .facts import BlockFacts
from .prompt import Prompt
from .refusal import Object

SECONDS = {"5m": 300.0, "1h": 3600.0}
_KEPT_PRINTS = 64
_RUNS = ("tool_use", "tool_result")


class Used(NamedTuple):
    """Input tokens of a request by what the cache did for them."""

    fresh: int
    read: int
    written_5m: int
    written_1h: int

    @property
    def total(self) -> int:
        """All input tokens."""
        return self.fresh + self.read + self.written_5m + self.written_1h


class _Entry(NamedTuple):
    expires: float
    life: float


class Looked(NamedTuple):
    """What a request reads, and what is to be written when its answer begins."""

    used: Used
    writes: tuple[tuple[bytes, float], ...]
    """Digest and seconds to live."""
    at: float


class Line(NamedTuple):
    """The positions of a prompt."""

    blocks: list[BlockFacts]
    keys: dict[int, bytes]
    """The digest of everything up to and with a position, for those that are looked at."""
    marks: list[tuple[int, str]]
    """The breakpoints, position and lifetime, in order."""
    sums: list[int]
    """Tokens up to and with each."""
    system_at: int
    """How many positions tools are; ``messages_at``: how many stand before the messages."""
    messages_at: int


def line_of(asked: Asked, prompt: Prompt) -> Line:
    """The positions of a prompt with their digests."""
    body = asked.body
    thinking = {k: v for k, v in (body.get("thinking") or {}).items() if k in ("type", "budget_tokens")}
    effort = (body.get("output_config") or {}).get("effort")
    salts = (
        [body["model"]],
        [body.get("speed")],
        [body.get("tool_choice"), thinking, effort, prompt.images],
    )
    hasher = blake2b(digest_size=16)
    blocks = [*prompt.tools, *prompt.system, *prompt.blocks]
    marks = _marks_of(asked, blocks)
    rules = asked.limits.model.cache
    wanted = sorted({i for mark, _ in marks for i in _looked_at(blocks, mark, rules.look_back if rules else 0)})
    keys: dict[int, bytes] = {}
    start = 0
    for salt, part in zip(salts, (prompt.tools, prompt.system, prompt.blocks), strict=True):
        hasher.update(b"\0" + msgspec.json.encode(salt))
        end = start + len(part)
        for i in wanted[bisect_left(wanted, start) : bisect_left(wanted, end)]:
            hasher.update(b"".join([block.digest for block in blocks[start : i + 1]]))
            keys[i] = hasher.digest()
            start = i + 1
        hasher.update(b"".join([block.digest for block in blocks[start:end]]))
        start = end
    sums = list(accumulate([block.tokens for block in blocks]))
    return Line(blocks, keys, marks, sums, len(prompt.tools), len(prompt.tools) + len(prompt.system))


def _looked_at(blocks: list[BlockFacts], mark: int, look_back: int) -> Iterator[int]:
    """The positions at which an entry is looked for, the mark's own first."""
    positions, before = 0, ""
    for i in range(mark, -1, -1):
        kind = blocks[i].kind
        if not (kind in _RUNS and kind == before):
            positions += 1
        if positions > look_back:
            return
        before = kind
        yield i


def _marks_of(asked: Asked, blocks: list[BlockFacts]) -> list[tuple[int, str]]:
    """The breakpoints; the automatic one stands on the last block that can have one."""
    marks = [(i, block.mark) for i, block in enumerate(blocks) if block.mark is not None]
    automatic = asked.body.get("cache_control")
    if isinstance(automatic, dict) and blocks:
        last = len(blocks) - 1
        while last > 0 and blocks[last].kind in ("thinking", "redacted_thinking"):
            last -= 1
        if not marks or marks[-1][0] != last:
            marks.append((last, automatic.get("ttl") or "5m"))
    return marks


class PromptCache:
    """One workspace's cache. ``clock``: seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[bytes, _Entry] = {}
        self._sweep_at = 10_000
        self._prints: OrderedDict[str, tuple[Line, str]] = OrderedDict()

    def look(self, line: Line, rules: CacheRules | None) -> Looked:
        """What this prompt reads now and will write. Hits live anew from now on."""
        now = self._clock()
        total = line.sums[-1] if line.sums else 0
        marks = [(i, life) for i, life in line.marks if rules is not None and line.sums[i] >= rules.min_tokens]
        if rules is None or not marks:
            return Looked(Used(total, 0, 0, 0), (), now)
        hit = max((found for i, _ in marks if (found := self._hit(line, i, rules.look_back, now)) is not None), default=-1)
        for i in {hit, *(i for i, _ in marks if i <= hit)} - {-1}:
            self._refresh(line.keys[i], now)
        read = line.sums[hit] if hit >= 0 else 0
        done, long_to = read, max((line.sums[i] for i, life in marks if life == "1h"), default=0)
        written_1h = max(0, long_to - done)
        written_5m = max(0, line.sums[marks[-1][0]] - max(done, long_to))
        writes = tuple((line.keys[i], SECONDS[life]) for i, life in marks)
        return Looked(Used(total - read - written_1h - written_5m, read, written_5m, written_1h), writes, now)

    def write(self, looked: Looked) -> None:
        """Make the entries readable: the answer begins. Their lifetime counts from the start of the request."""
        for key, life in looked.writes:
            known = self._entries.get(key)
            self._entries[key] = _Entry(looked.at + max(life, known.life if known and known.expires >= looked.at else 0), life)
        if len(self._entries) > self._sweep_at:
            now = self._clock()
            self._entries = {key: entry for key, entry in self._entries.items() if entry.expires >= now}
            self._sweep_at = 2 * len(self._entries) + 10_000

    def _hit(self, line: Line, mark: int, look_back: int, now: float) -> int | None:
        """The longest prefix in the cache that ends at most ``look_back`` positions back, the mark's own being the first."""
        for i in _looked_at(line.blocks, mark, look_back):
            entry = self._entries.get(line.keys[i])
            if entry is not None and entry.expires >= now:
                return i
        return None

    def _refresh(self, key: bytes, now: float) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry.expires >= now:
            self._entries[key] = _Entry(now + entry.life, entry.life)

    # --- cache diagnostics

    def remember(self, message_id: str, line: Line, model: str) -> None:
        """Keep what a request looked like for the next one that asks about it."""
        self._prints[message_id] = (line, model)
        while len(self._prints) > _KEPT_PRINTS:
            self._prints.popitem(last=False)

    def diagnose(self, line: Line, model: str, wanted: Mapping[str, object]) -> Object | None:
        """Why the prefix of an earlier request cannot be used; None where it can, or no request is named."""
        previous = wanted.get("previous_message_id")
        if previous is None:
            return None
        found = self._prints.get(str(previous))
        if found is None:
            return {"cache_miss_reason": {"type": "previous_message_not_found"}}
        old, old_model = found
        same = next((i for i, (a, b) in enumerate(zip(old.blocks, line.blocks, strict=False)) if a.digest != b.digest), None)
        if same is None:
            same = min(len(old.blocks), len(line.blocks))
        if same == len(old.blocks) and old_model == model:
            return None
        if old_model != model:
            same = 0
        missed = old.sums[-1] - (old.sums[same - 1] if same else 0)
        reason = _reason(old, line, old_model != model)
        return {"cache_miss_reason": {"type": reason, "cache_missed_input_tokens": missed}}


def _reason(old: Line, new: Line, model_changed: bool) -> str:
    if model_changed:
        return "model_changed"
    if _digests(old, 0, old.system_at) != _digests(new, 0, new.system_at):
        return "tools_changed"
    if _digests(old, old.system_at, old.messages_at) != _digests(new, new.system_at, new.messages_at):
        return "system_changed"
    return "messages_changed"


def _digests(line: Line, start: int, end: int) -> list[bytes]:
    return [block.digest for block in line.blocks[start:end]]
