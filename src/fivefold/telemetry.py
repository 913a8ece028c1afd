"""Events as OpenTelemetry spans and metrics (P3): a ``Listener`` for a driver, one consumer of the events among others.

The semantic conventions have no names for compaction, so all of ours begin with ``fivefold.``. What is reported is sizes, counts, names
of levels and reasons out of a fixed set: no text of the conversation, and no message that could quote one.
"""

from __future__ import annotations

from opentelemetry import metrics, trace
from opentelemetry.metrics import Meter
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from .core.actions import Emit
from .core.messages import JSON
from .ports import Listener

SCOPE = "fivefold"
_SAFE = (
    "trigger", "level", "path", "tokens", "tokens_before", "tokens_after", "threshold", "source", "llm_calls", "transition", "window",
    "believed", "method", "calls", "variant", "hook", "committed", "media", "max_tokens", "agent", "turns_since",
)  # fmt: skip
"""Fields that hold no text of a conversation. All others stay out: a reason may quote what a provider or a tool said."""
_ENDS = {"compaction_finished": "ok", "compaction_failed": "failed", "compaction_vetoed": "vetoed", "compaction_cancelled": "cancelled"}


def attributes(fields: dict[str, JSON]) -> dict[str, str | int | float | bool]:
    """The fields of an event that may be reported, under our names."""
    return {f"{SCOPE}.{name}": value for name in _SAFE if isinstance(value := fields.get(name), str | int | float | bool)}


def listener(*, tracer: Tracer | None = None, meter: Meter | None = None, conversation: str = "") -> Listener:
    """Reports the events of one conversation to what the program has set up for OpenTelemetry, or to the tracer and meter given: a span
    for each full compaction, a span event for all else, counters of compactions and folds, and how much they freed in tokens.
    ``conversation``: its id, where it may be reported."""
    return _Reporter(tracer or trace.get_tracer(SCOPE), meter or metrics.get_meter(SCOPE), conversation)


class _Reporter:
    def __init__(self, tracer: Tracer, meter: Meter, conversation: str) -> None:
        self.tracer = tracer
        self.own: dict[str, str] = {f"{SCOPE}.conversation": conversation} if conversation else {}
        self.span: Span | None = None
        self.compactions = meter.create_counter(f"{SCOPE}.compactions", description="Full compactions, by trigger and outcome")
        self.folds = meter.create_counter(f"{SCOPE}.folds", description="Folds, by level and path")
        self.freed = meter.create_histogram(f"{SCOPE}.tokens_freed", unit="{token}", description="Tokens that a fold took out of view")

    def __call__(self, emit: Emit) -> None:
        told = {**attributes(emit.fields), **self.own}
        if emit.name == "compaction_started":
            self._end("cancelled")  # one that was never told to have ended
            self.span = self.tracer.start_span(f"{SCOPE}.compaction", attributes=told)
        elif emit.name in _ENDS:
            self._ended(_ENDS[emit.name], emit, told)
        else:
            (self.span or trace.get_current_span()).add_event(f"{SCOPE}.{emit.name}", attributes=told)
        if emit.name in ("folded", "compaction_finished"):
            self._folded(emit)

    def _ended(self, outcome: str, emit: Emit, told: dict[str, str | int | float | bool]) -> None:
        if self.span is not None:
            self.span.set_attributes(told)
        self._end(outcome)
        named = {key: value for key, value in told.items() if key.rpartition(".")[2] in ("trigger", "level", "variant")}
        self.compactions.add(1, {**named, f"{SCOPE}.outcome": outcome})

    def _end(self, outcome: str) -> None:
        span, self.span = self.span, None
        if span is None:
            return
        span.set_attribute(f"{SCOPE}.outcome", outcome)
        if outcome == "failed":
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def _folded(self, emit: Emit) -> None:
        named = {f"{SCOPE}.{name}": str(emit.fields[name]) for name in ("level", "path", "variant") if name in emit.fields}
        self.folds.add(1, named)
        before, after = emit.fields.get("tokens_before"), emit.fields.get("tokens_after")
        if isinstance(before, int) and isinstance(after, int):
            self.freed.record(max(0, before - after), named)
