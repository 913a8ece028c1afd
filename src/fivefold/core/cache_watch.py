"""The cache-break detector (P4): what the provider should have read from its prompt cache, what it says it read, and why less."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from .economics import CacheRules, Model
from .entries import Usage

Cause: TypeAlias = Literal["fold", "expiry", "model", "tools", "system prompt", "unknown"]
TOLERANCE = 0.05
"""A provider's counts of the same prefix differ by so much at most: marks fall on blocks, and unasked caching on steps of 128 tokens."""
LEAST_TOKENS = 1_024
"""Less is no break worth telling: it is about the smallest prefix that any provider caches."""


class Prefix(NamedTuple):
    """What a request's prefix is made of. ``tools``, ``system``: any digest of them; ``folds``: how many folds are in force, those
    taken back counted on (a change of the view's start is a change of this number)."""

    model: str
    tools: str
    system: str
    folds: int


class Break(NamedTuple):
    """A prefix that was cached and was not read. Tokens."""

    cause: Cause
    expected: int
    read: int
    usd: float | None
    """What it cost more than reading would have; None where no price is known."""

    @property
    def lost(self) -> int:
        """Tokens paid for again."""
        return self.expected - self.read


class CacheWatch(NamedTuple):
    """What is in the provider's cache as far as a conversation knows; a value, ``after`` gives the next one."""

    prefix: Prefix | None = None
    cached: int = 0
    at: float = 0.0
    long: bool = False
    """Written with the long lifetime."""

    def after(self, prefix: Prefix, usage: Usage, now: float, rules: CacheRules | None) -> CacheWatch:
        """With what a response says is cached now: what it read and wrote; where the provider marks unasked, all of the input."""
        cached = usage.cache_read + usage.cache_write
        if rules is not None and not rules.client_marks and not usage.cache_write:
            cached += usage.input
        return CacheWatch(prefix, cached, now, usage.cache_write_1h > 0 or (self.long and not usage.cache_write))

    def broken(self, prefix: Prefix, usage: Usage, now: float, model: Model) -> Break | None:
        """Whether a response read less than was there, and why: the first cause that holds, the dearest to overlook first."""
        rules = model.cache
        if self.prefix is None or rules is None or self.cached < max(LEAST_TOKENS, rules.min_tokens):
            return None
        if usage.cache_read >= self.cached * (1 - TOLERANCE) - 128:
            return None
        cause: Cause = "unknown"
        if prefix.model != self.prefix.model:
            cause = "model"
        elif prefix.tools != self.prefix.tools:
            cause = "tools"
        elif prefix.system != self.prefix.system:
            cause = "system prompt"
        elif prefix.folds != self.prefix.folds:
            cause = "fold"
        elif now - self.at > rules.ttl_seconds[self.long]:
            cause = "expiry"
        return Break(cause, self.cached, usage.cache_read, _dearer(self.cached - usage.cache_read, usage, model))


def _dearer(tokens: int, usage: Usage, model: Model) -> float | None:
    if model.prices is None:
        return None
    price = model.prices.price_for(usage.input + usage.cache_write + usage.cache_read)
    written = price.cache_write_5m if usage.cache_write else price.input
    return tokens * (written - price.cache_read) / 1_000_000
