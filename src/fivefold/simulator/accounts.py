"""The journal: what each request asked, counted, cost and got; an oracle for whoever is tested against the simulator (U5)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..core.economics import PER_MILLION, Model
from .cache import Used
from .refusal import Object


class Iteration(msgspec.Struct, frozen=True):
    """One window of a response: ``message`` or ``compaction``; tokens."""

    kind: str
    used: Used
    output: int


class Record(msgspec.Struct, kw_only=True):
    """One request. Tokens are by a real tokenizer; 0 where the request got no answer. ``messages`` are shared between the records
    of a growing conversation and are to be read only."""

    number: int
    """From 1, over all endpoints."""
    at: float
    api: str
    """``messages``, ``count_tokens``, ``models``, ``chat``, ``responses``, ``input_tokens``, ``compact``; ``unknown``: not simulated."""
    model: str = ""
    body: Object = {}
    """All of the request but its messages."""
    betas: tuple[str, ...] = ()
    messages: Sequence[Object] = ()
    status: int = 0
    iterations: tuple[Iteration, ...] = ()
    thinking: int = 0
    """Tokens of the output that were thinking."""
    usd: float | None = None
    """By the price table; None where the model has no prices."""
    stop_reason: str | None = None
    answer: Object | None = None
    """The body that was, or would have been, answered; None for a refusal."""
    error: str | None = None
    applied_edits: tuple[Object, ...] = ()
    fault: str | None = None
    streamed: bool = False
    whole: bool = True
    """Whether the answer was sent to its end."""

    @property
    def request(self) -> Object:
        """The body as it was asked, the messages in it; of Responses, its input."""
        return {**self.body, ("input" if self.api in ("responses", "compact", "input_tokens") else "messages"): list(self.messages)}

    @property
    def input(self) -> int:
        """Input tokens in all, of all windows."""
        return sum(part.used.total for part in self.iterations)

    @property
    def size(self) -> int:
        """Input tokens of the last message window: the size of the conversation as the model saw it."""
        return next((part.used.total for part in reversed(self.iterations) if part.kind == "message"), 0)

    @property
    def read(self) -> int:
        """Tokens read from the cache."""
        return sum(part.used.read for part in self.iterations)

    @property
    def written(self) -> int:
        """Tokens written to the cache."""
        return sum(part.used.written_5m + part.used.written_1h for part in self.iterations)

    @property
    def output(self) -> int:
        """Output tokens."""
        return sum(part.output for part in self.iterations)


class Journal:
    """All records, in the order in which their requests came. ``keep``: how many of the newest keep what was asked and answered;
    the numbers of the older ones stay. None: all."""

    def __init__(self, keep: int | None = None) -> None:
        self.records: list[Record] = []
        self._keep = keep

    def begin(self, at: float, api: str) -> Record:
        """A new record."""
        record = Record(number=len(self.records) + 1, at=at, api=api)
        self.records.append(record)
        if self._keep is not None and len(self.records) > self._keep:
            old = self.records[-1 - self._keep]
            old.body, old.messages, old.answer = {}, (), None
        return record

    @property
    def answered(self) -> list[Record]:
        """The requests that a model answered."""
        return [record for record in self.records if record.iterations]

    @property
    def refused(self) -> list[Record]:
        """The requests that got an error before anything else."""
        return [record for record in self.records if record.status >= 400]

    @property
    def usd(self) -> float:
        """What all of them cost together, as far as prices are known."""
        return sum(record.usd or 0.0 for record in self.records)


def price_of(model: Model, iterations: Sequence[Iteration]) -> float | None:
    """USD of a response: each window at the tier of its own prompt (facts: API sections 2 and 6)."""
    if model.prices is None:
        return None
    total = 0.0
    for part in iterations:
        price, used = model.prices.price_for(part.used.total), part.used
        total += used.fresh * price.input + used.read * price.cache_read + part.output * price.output
        total += used.written_5m * price.cache_write_5m + used.written_1h * price.cache_write_1h
    return total / PER_MILLION
