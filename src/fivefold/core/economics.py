"""What a model can take and what it costs: windows, price tiers, cache rules, and the money of one response.

All prices are USD per million tokens, as lists give them. A part that a provider does not price apart is billed as input:
a cache read without a discount costs what input costs, a cache write without a surcharge too.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .entries import Iteration, Usage
from .generation import Generation

PER_MILLION = 1_000_000
Binding: TypeAlias = Literal["none", "free", "bound", "bound_by_account"]
"""What ties a model's thinking blocks to their prefix (I7): ``none``: it does not think; ``free``: nothing; ``bound``: every
edit before them is refused; ``bound_by_account``: it is on some accounts and can be asked for on the others."""


class Price(msgspec.Struct, frozen=True, array_like=True):
    """USD per million tokens of each part of a usage."""

    input: float
    output: float
    cache_read: float
    cache_write_5m: float
    """A write with the short lifetime (``CacheRules.ttl_seconds[0]``; five minutes at Anthropic)."""
    cache_write_1h: float
    """A write with the long lifetime (``CacheRules.ttl_seconds[1]``; one hour at Anthropic)."""

    def times(self, factor: float) -> Price:
        """This price with every part multiplied; rounded to a millionth of a dollar, finer than any list."""
        parts = (self.input, self.output, self.cache_read, self.cache_write_5m, self.cache_write_1h)
        return Price(*(round(part * factor, 6) for part in parts))


class Tier(msgspec.Struct, frozen=True, array_like=True):
    """The price of a whole request whose prompt has more than ``above_tokens`` tokens (W10)."""

    above_tokens: int
    price: Price


class Prices(msgspec.Struct, frozen=True, array_like=True):
    """A base price and its cliffs, in rising order of ``above_tokens``."""

    base: Price
    tiers: tuple[Tier, ...] = ()

    def price_for(self, prompt_tokens: int) -> Price:
        """The price of a request of this prompt size: input, cache writes and cache reads together."""
        price = self.base
        for tier in self.tiers:
            if prompt_tokens > tier.above_tokens:
                price = tier.price
        return price

    @property
    def cliff(self) -> int | None:
        """The prompt size to stay at or under so as to pay the base price; None where the price never rises (W10)."""
        return next((tier.above_tokens for tier in self.tiers if tier.price.input > self.base.input), None)

    def times(self, factor: float) -> Prices:
        """These prices with every part of every tier multiplied."""
        return Prices(self.base.times(factor), tuple(Tier(tier.above_tokens, tier.price.times(factor)) for tier in self.tiers))


class CacheRules(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the provider's prompt cache works for a model."""

    min_tokens: int = 1024
    """A shorter prefix is not cached, and nothing says so."""
    ttl_seconds: tuple[int, int] = (300, 3600)
    """The short and the long lifetime. They start anew at each hit."""
    client_marks: bool = False
    """Nothing is cached unless the client marks where; else the provider does it unasked."""
    max_breakpoints: int = 4
    look_back: int = 20
    """How many positions before a mark are looked at for an earlier write."""


class MediaLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request may hold of images and pages."""

    max_items: int
    """Images and document pages in one request."""
    max_side: int
    """Pixels a side."""
    many_items: int
    """From this many images on, ``many_side`` is the limit."""
    many_side: int
    max_image_bytes: int
    """Of one image, as base64."""


class Model(msgspec.Struct, frozen=True, omit_defaults=True):
    """All that is known of one model. Sizes are tokens where the name does not say otherwise."""

    id: str
    provider: str
    """Who serves it: ``anthropic``, ``openai`` …; ``bedrock`` and ``vertex`` where the name that was asked for says so."""
    window: int
    """The context window: prompt and output together, except at Gemini, where it is the prompt alone."""
    max_output: int
    input_cap: int | None = None
    """The largest prompt where it is less than the window whatever output is asked for (OpenAI since GPT-5)."""
    prices: Prices | None = None
    """None: not known."""
    cache: CacheRules | None = None
    """None: no prompt cache."""
    generation: Generation = "unknown"
    thinking: Binding = "none"
    edits: tuple[str, ...] = ()
    """Server-side context edits (E2): ``clear_tool_uses``, ``clear_thinking``."""
    compaction: tuple[str, ...] = ()
    """The provider's own compaction (E7, L10): ``threshold``, ``on_demand``, ``responses``."""
    image_cap: int = 2000
    """The most that one image counts (T6)."""
    image_long_edge: int | None = None
    """Pixels to which a longer image is scaled down before it is counted; None: not published in the data."""
    media: MediaLimits | None = None
    prefill: bool = False
    """Whether a request may end on an assistant message to be continued (I3)."""
    body_limit: int | None = None
    """Bytes of a request's body (T7)."""
    regional_factor: float = 1.0
    """What a region-bound endpoint multiplies the prices by."""
    retires: str | None = None
    """The day it is, or was, switched off: YYYY-MM-DD."""
    assumed: tuple[str, ...] = ()
    """Fields that no source tells and that were set to something cautious."""

    @property
    def prompt_limit(self) -> int:
        """The largest prompt that can be sent at all."""
        return self.window if self.input_cap is None else min(self.input_cap, self.window)


class Money(msgspec.Struct, frozen=True):
    """USD of one response or of a sum of them."""

    input: float = 0.0
    cache_write: float = 0.0
    cache_read: float = 0.0
    output: float = 0.0

    @property
    def total(self) -> float:
        """All parts together."""
        return self.input + self.cache_write + self.cache_read + self.output

    def __add__(self, other: Money) -> Money:
        return Money(
            self.input + other.input,
            self.cache_write + other.cache_write,
            self.cache_read + other.cache_read,
            self.output + other.output,
        )


def cost(usage: Usage, model: Model) -> Money | None:
    """The money of one response at the tier that its prompt falls into; None where the model's prices are not known.

    A response of several windows is the sum of all of them, each at its own tier (T8). The one-hour writes are known for
    the message windows together only: each window is given the same share of them.
    """
    if model.prices is None:
        return None
    windows = usage.iterations or (Iteration("message", usage.input, usage.cache_write, usage.cache_read, usage.output),)
    written = sum(window.cache_write for window in windows if window.kind == "message")
    long_share = min(1.0, usage.cache_write_1h / written) if written else 0.0
    money = Money()
    for window in windows:
        money += _window_cost(window, model.prices, long_share)
    return money


def _window_cost(window: Iteration, prices: Prices, long_share: float) -> Money:
    price = prices.price_for(window.input + window.cache_write + window.cache_read)
    write_price = price.cache_write_5m * (1 - long_share) + price.cache_write_1h * long_share
    return Money(
        window.input * price.input / PER_MILLION,
        window.cache_write * write_price / PER_MILLION,
        window.cache_read * price.cache_read / PER_MILLION,
        window.output * price.output / PER_MILLION,
    )
