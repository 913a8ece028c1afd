"""How large the view is (T2–T4, T7): the last response's own count, an estimate of what came after it, and a
calibration for when a fold has made that count worthless.

Each entry is measured once, when it comes into view. The ledger is a value like the view whose sizes it keeps: carried on
by ``advance`` at a cost for what is new, and after a fold by one pass over the view that measures only what the
fold has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Literal, NamedTuple, TypeAlias

from .entries import SHOWN_AS, Entry, Fold, Head, HideSpan, Record, Usage
from .estimate import Measure, encode_json, estimate_json, measure_blocks
from .generation import Generation
from .log import Log
from .media import CAP_OLD
from .pairing import Reading
from .view import View, view_of

Measurer: TypeAlias = Callable[[Entry], Measure]
SizeSource: TypeAlias = Literal["usage", "usage+estimate", "calibrated", "estimate"]

PADDING = 4 / 3
"""What an estimate is multiplied by where nothing better is known (T1)."""
MIN_SAMPLE_TOKENS = 1_000
"""Growth between two responses from which their ratio of true to estimated tokens says something."""
MAX_RATIO = 3.0
MAX_OVERHEAD_TOKENS = 500_000
"""More than any system prompt and tools that were not recorded."""
NOTHING = Measure(0, 0, False)


class Size(NamedTuple):
    """The size of a view. ``used`` is the number to decide by; ``estimate`` is what the padded estimate alone says."""

    used: int
    source: SizeSource
    estimate: int
    bytes: int
    uncertain: bool


class Sample(NamedTuple):
    """One response: the tokens that the provider counted before it, and the unpadded estimate of the same."""

    counted: int
    estimated: int


class Calibration(NamedTuple):
    """True ÷ estimated, and the fixed overhead of system prompt and tools, learned from responses (T3)."""

    ratio: float | None = None
    overhead: int | None = None
    first: Sample | None = None

    def learn(self, sample: Sample) -> Calibration:
        """With one more response since the last fold. A step that no text explains (tools added, a count that was wrong)
        begins the samples anew and leaves the ratio as it was."""
        if self.first is None:
            overhead = max(0, sample.counted - round(sample.estimated * (self.ratio or 1.0)))
            return Calibration(self.ratio, overhead, sample)
        grown, counted = sample.estimated - self.first.estimated, sample.counted - self.first.counted
        if counted < 0 or counted > MAX_RATIO * grown + MIN_SAMPLE_TOKENS:
            return self.folded().learn(sample)
        if grown < MIN_SAMPLE_TOKENS:
            return self
        ratio = max(1.0, counted / grown)
        return Calibration(ratio, max(0, self.first.counted - round(self.first.estimated * ratio)), self.first)

    def folded(self) -> Calibration:
        """After a fold: what was learned stays, the samples start anew."""
        return self._replace(first=None)

    def apply(self, estimated: int) -> int:
        """Tokens that an unpadded estimate stands for; never below it."""
        return max(estimated, _up(estimated * (PADDING if self.ratio is None else self.ratio)))


class _Response(NamedTuple):
    """The response that is coming in: its number, the estimate of all before it, and of what came since that is not its own."""

    number: int
    before: int
    since: int
    fresh: bool
    """It began after the last fold: its usage describes the view."""


class _Anchor(NamedTuple):
    """The last response with usage: its size, and the estimate of what came since that is not its own."""

    response: _Response
    size: int
    since: int


class Ledger:
    """Sizes of a view. ``overhead`` is the estimate of system prompt and tools, for as long as no response has told; ``fixed`` is
    what they are known to have, whatever responses told."""

    __slots__ = (
        "_anchor",
        "_measures",
        "_odd",
        "_reading",
        "_response",
        "bytes",
        "calibration",
        "estimated",
        "fixed",
        "overhead",
        "uncertain",
        "view",
    )

    def __init__(self, view: View, measure: Measurer, *, overhead: Measure = NOTHING, fixed: int | None = None) -> None:
        self.overhead = overhead
        self.fixed = fixed
        self.calibration = Calibration()
        self._load(view, measure, {})

    @property
    def measures(self) -> list[Measure]:
        """The measure of each entry shown, in the view's order."""
        return self._measures[: len(self.view)]

    @property
    def accepted(self) -> int:
        """Tokens of the last input that a provider has taken, where it is known."""
        return 0 if self._anchor is None else self._anchor.size

    def size(self) -> Size:
        """The size of the view now."""
        padded = _up((self.overhead.tokens + self.estimated) * PADDING)
        uncertain = self.uncertain > 0 or self._odd
        total_bytes = self.bytes + self.overhead.bytes
        if self.fixed is not None:
            return Size(self.fixed + self.calibration.apply(self.estimated), "estimate", padded, total_bytes, uncertain)
        if self._anchor is not None:
            source: SizeSource = "usage+estimate" if self._anchor.since else "usage"
            return Size(self._anchor.size + self.calibration.apply(self._anchor.since), source, padded, total_bytes, uncertain)
        if self.calibration.overhead is not None:
            return Size(self.calibration.overhead + self.calibration.apply(self.estimated), "calibrated", padded, total_bytes, uncertain)
        return Size(padded, "estimate", padded, total_bytes, uncertain)

    def advance(self, view: View, measure: Measurer) -> Ledger:
        """The ledger of a later view of the same conversation."""
        new = object.__new__(Ledger)
        new.overhead, new.fixed = self.overhead, self.fixed
        if not view.grown_from(self.view):
            new.calibration = self.calibration.folded()
            known = {id(shown.entry): m for shown, m in zip(self.view.shown(), self._measures, strict=False)}
            new._load(view, measure, known)
            return new
        new.view, new.calibration = view, self.calibration
        new._measures = self._measures if len(self._measures) == len(self.view) else self._measures[: len(self.view)]
        new.estimated, new.bytes, new.uncertain = self.estimated, self.bytes, self.uncertain
        new._response, new._anchor, new._reading, new._odd = self._response, self._anchor, self._reading, self._odd
        for shown in view.shown(len(self.view)):
            new._add(shown.entry, measure(shown.entry) if shown.entry.kind in SHOWN_AS else NOTHING, fresh=True)
        return new

    def under(self, view: View) -> Ledger:
        """The same ledger for a view that shows the same."""
        new = copy(self)
        new.view = view
        return new

    def _load(self, view: View, measure: Measurer, known: dict[int, Measure]) -> None:
        self.view = view
        self._measures: list[Measure] = []
        self.estimated = self.bytes = self.uncertain = 0
        self._response: _Response | None = None
        self._anchor: _Anchor | None = None
        self._reading = Reading()
        self._odd = False
        for shown in view.shown():
            found = known.get(id(shown.entry))
            if found is None:
                found = measure(shown.entry) if shown.entry.kind in SHOWN_AS else NOTHING
            fresh = shown.side == 0 and shown.position >= view.log.changed_at
            self._add(shown.entry, found, fresh=fresh)

    def _add(self, entry: Entry, measured: Measure, *, fresh: bool) -> None:
        """Take one entry in. ``fresh``: it came after the last fold."""
        self._measures.append(measured)
        if entry.kind not in SHOWN_AS:
            return
        self._reading = self._reading.read(entry)
        own = entry.kind == "assistant"
        response = self._response
        if own and (response is None or response.number != self._reading.number):
            response = self._response = _Response(self._reading.number, self.estimated, 0, fresh)
        if response is not None and not own:
            self._response = response._replace(since=response.since + measured.tokens)
        if self._anchor is not None and not (own and self._anchor.response.number == self._reading.number):
            self._anchor = self._anchor._replace(since=self._anchor.since + measured.tokens)
        self.estimated += measured.tokens
        self.bytes += measured.bytes
        self.uncertain += measured.uncertain
        if own and response is not None and response.fresh and entry.usage is not None and entry.source in ("main", "sdk"):
            self._anchor_at(response, entry.usage)

    def _anchor_at(self, response: _Response, usage: Usage) -> None:
        """What is sent is what was counted and what the provider took out before that (E6)."""
        size, counted = usage.size, usage.size - usage.output
        if size <= 0:
            return
        self._odd = not _plausible(size + usage.cleared, response.before)
        if self._odd:
            return
        self._anchor = _Anchor(response, size, response.since)
        if counted > 0:
            self.calibration = self.calibration.learn(Sample(counted + usage.cleared, response.before))


def overhead_of(head: Head, generation: Generation = "unknown", image_cap: int = CAP_OLD) -> Measure:
    """The estimate of a conversation's system prompt and tools, for as long as no response has told (T3)."""
    system = measure_blocks(head.system, generation, image_cap)
    tools = sum(estimate_json(tool, generation) for tool in head.tools)
    return Measure(system.tokens + _up(tools), system.bytes + sum(len(encode_json(tool)) for tool in head.tools), system.uncertain)


def lived_through(log: Log, measure: Measurer, *, overhead: Measure = NOTHING, fixed: int | None = None) -> Ledger:
    """The ledger at the end of a log that was lived through record by record: what responses before a fold have told of the ratio
    and the overhead stays known behind it (T3). Where the beginning is not loaded (K2), what was counted with it tells nothing."""
    records = list(log.records())
    start = _known_from(log, records)
    passed = Log(log.head, records[:start], base=log.base)
    ledger = Ledger(view_of(passed), measure, overhead=overhead, fixed=fixed)
    waiting: list[Record] = []
    for record in records[start:]:
        if not isinstance(record, Entry):
            passed = passed.append(*waiting)
            ledger = ledger.advance(ledger.view.advance(passed), measure)
            waiting = []
        waiting.append(record)
    return ledger.advance(ledger.view.advance(passed.append(*waiting)), measure)


def _known_from(log: Log, records: Sequence[Record]) -> int:
    """The record from which on all that was sent is loaded: behind the last fold that hides what is not."""
    if not log.base:
        return 0
    for i in range(len(records) - 1, -1, -1):
        record = records[i]
        if isinstance(record, Fold) and any(
            isinstance(change, HideSpan) and (change.first is None or log.find(change.first) is None) for change in record.changes
        ):
            return i + 1
    return len(records)


def _plausible(counted: int, estimated: int) -> bool:
    """Whether a provider's count fits what was sent: one far under the estimate was truncated or edited on the way (R10),
    one far over it is no count of this conversation."""
    return estimated <= 2 * counted + MIN_SAMPLE_TOKENS and counted <= 20 * estimated + MAX_OVERHEAD_TOKENS


def _up(value: float) -> int:
    return -int(-value // 1)
