"""P3: OpenTelemetry is one consumer of the events, and no text of the conversation gets there."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from fivefold.drive import Driver
from fivefold.hooks import Hooks
from fivefold.perform import Ports
from fivefold.telemetry import listener
from tests.build import user
from tests.rules.talk import Clock, rounds_of, setup_of, too_long


class Watched:
    """A conversation whose events go to an OpenTelemetry that keeps everything in memory."""

    def __init__(self, *, policy: dict[str, Any] | None = None, hooks: Hooks | None = None, tokens: int = 1_500) -> None:
        self.spans, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        traces = TracerProvider()
        traces.add_span_processor(SimpleSpanProcessor(self.spans))
        report = listener(tracer=traces.get_tracer("t"), meter=MeterProvider([self.reader]).get_meter("t"), conversation="c-1")
        self.driver = Driver(setup=setup_of(20_000, policy), ports=Ports(hooks=hooks), listen=report, clock=Clock())
        self.driver.say(*rounds_of(12, tokens))

    def points(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        found = [metric for of in data.resource_metrics for scope in of.scope_metrics for metric in scope.metrics if metric.name == name]
        return [point for metric in found for point in metric.data.data_points]


def test_p3_a_compaction_is_a_span_with_its_numbers_and_counted() -> None:
    watched = Watched()
    watched.driver.before_request()
    (span,) = watched.spans.get_finished_spans()
    told = dict(span.attributes)
    assert span.name == "fivefold.compaction" and told["fivefold.outcome"] == "ok" and told["fivefold.conversation"] == "c-1"
    assert told["fivefold.tokens_after"] < told["fivefold.tokens_before"] == 25_408
    (count,) = watched.points("fivefold.compactions")
    assert count.value == 1 and count.attributes["fivefold.outcome"] == "ok" and count.attributes["fivefold.trigger"] == "auto"
    (freed,) = watched.points("fivefold.tokens_freed")
    assert freed.sum == told["fivefold.tokens_before"] - told["fivefold.tokens_after"]


def test_p3_no_text_of_the_conversation_and_no_message_is_reported() -> None:
    hooks = Hooks()

    def broken(payload: dict[str, Any]) -> str:
        raise KeyError("secret-of-a-hook")

    hooks.add("session_start", broken)
    watched = Watched(hooks=hooks, policy={"auto": {"reactive_only": True}})
    watched.driver.before_request()
    watched.driver.rejected(too_long(26_000, 20_000))
    everything = "".join(span.to_json() for span in watched.spans.get_finished_spans()) + watched.reader.get_metrics_data().to_json()
    assert "fivefold.hook_failed" in everything and "reactive" in everything
    assert not any(word in everything for word in ("secret-of-a-hook", "part1", "Look into", "prompt is too long"))


def test_p3_a_failure_a_veto_and_a_cancel_end_the_span_as_what_they_are() -> None:
    failed = Watched(tokens=10)
    failed.driver.say(user("big", "word " * 40_000))
    failed.driver.before_request()
    (span,) = failed.spans.get_finished_spans()
    assert span.attributes["fivefold.outcome"] == "failed" and span.status.status_code is StatusCode.ERROR
    hooks = Hooks()
    hooks.add("pre_compact", lambda payload: {"veto": "not now"})
    vetoed = Watched(hooks=hooks)
    vetoed.driver.before_request()
    (span,) = vetoed.spans.get_finished_spans()
    assert span.attributes["fivefold.outcome"] == "vetoed" and span.status.status_code is StatusCode.UNSET
