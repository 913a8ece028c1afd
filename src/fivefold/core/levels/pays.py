"""Whether clearing pays (M9): what rewriting the cache behind the first change costs, against what is no longer read in each turn.

With F tokens freed, S tokens standing behind the first change, T turns still to come, and per token r for a cache read and w for a cache
write. Left alone, T requests read S + F from the cache: T·r·(S + F). Cleared, the first of them writes S anew and the others read it:
w·S + (T − 1)·r·S. The difference is

    saved = T·r·F − (w − r)·S        and so it pays after        (w − r)·S ÷ (r·F) turns.

A write costs 1.25 times the input (2 times for the long lifetime), a read 0.1 down to 0.025 times (Anthropic's prompt-caching document),
so the suffix may be no larger than T·F/11.5 at 0.1, and T·F/49 at 0.025: where reads are cheap, clearing early loses money. On a dead
cache S is written whether or not anything is cleared, and the clearing is free. Past a price cliff the prompt as a whole is cheaper once
it is back under it, which is counted where the prompt's size is told.
"""

from __future__ import annotations

import msgspec

from ..economics import PER_MILLION, Model, Price


class Worth(msgspec.Struct, frozen=True):
    """The money of one clearing, in USD."""

    write_cost: float
    """What the next request pays more for writing what it would have read; 0 on a dead cache."""
    saved_per_turn: float
    """What each request pays less, from the next one on; negative where nothing would be saved."""
    break_even_turns: float | None
    """Requests after which it has paid for itself; None: never."""
    pays: bool
    """Whether more is saved over the turns that are left than the writing costs."""


def worth(
    freed_tokens: int,
    suffix_tokens: int,
    turns_left: float,
    model: Model,
    *,
    cache_alive: bool,
    prompt_tokens: int | None = None,
    long_lifetime: bool = False,
) -> Worth | None:
    """What clearing ``freed_tokens`` is worth; None where the model's prices are not known.

    ``suffix_tokens``: what is sent behind the first change and stays. ``turns_left``: requests still to come, the next one included.
    ``prompt_tokens``: size of the prompt before the clearing, so that it is priced at its own tier; None: below any cliff.
    ``long_lifetime``: cache writes are for the long lifetime. A model without a prompt cache pays input for everything in each turn, and
    rewriting costs nothing. Answers and fresh input cost the same either way, but for the tier, which is left out: it is not known here.
    """
    if model.prices is None:
        return None
    freed, suffix = max(0, freed_tokens), max(0, suffix_tokens)
    before = max(freed + suffix, prompt_tokens or 0)
    tiers = (before, before - freed) if prompt_tokens is not None else (0, 0)
    old, new = (model.prices.price_for(tokens) for tokens in tiers)
    saved = (before * _read(old, model) - (before - freed) * _read(new, model)) / PER_MILLION if freed else 0.0
    dearer = _write(new, model, long_lifetime=long_lifetime) - _read(new, model)
    cost = suffix * max(0.0, dearer) / PER_MILLION if cache_alive and freed else 0.0
    return Worth(cost, saved, cost / saved if saved > 0 else None, turns_left * saved > cost)


def _read(price: Price, model: Model) -> float:
    """USD per million tokens of what the cache has; the input's price where there is no cache."""
    return price.input if model.cache is None else price.cache_read


def _write(price: Price, model: Model, *, long_lifetime: bool) -> float:
    if model.cache is None:
        return price.input
    return price.cache_write_1h if long_lifetime else price.cache_write_5m
