"""U3: faults on purpose, as the official clients meet them; each is logged."""

from __future__ import annotations

import time
from typing import Any

import anthropic
import openai
import pytest

from fivefold.errors import LeftoverStepsError, SimulatorError
from fivefold.providers.overflow import classify
from fivefold.simulator.faults import Fault, Faults, Hit, Kind, read_faults
from fivefold.simulator.script import Reply
from fivefold.simulator.serve import Simulator

from .asking import MODEL, client_of, openai_of, user

LONG = "A text that is long enough to come in several pieces, so that a stream can break in the middle of it. " * 3
ASK: dict[str, Any] = {"model": MODEL, "max_tokens": 1000, "messages": [user("a")]}


def raised(kind: Kind, **fields: Any) -> anthropic.APIStatusError:
    """The error that the first request meets; the second is spared."""
    with Simulator(["ok"], faults=[Fault(kind=kind, at=(1,), **fields)]) as sim, client_of(sim) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            client.messages.create(**ASK)
        assert client.messages.create(**ASK).stop_reason == "end_turn"
        assert sim.faults.log == [Hit(1, kind)]
        assert [(record.fault, record.status == 200) for record in sim.journal.records] == [(kind, False), (None, True)]
    return caught.value


@pytest.mark.parametrize(
    ("kind", "cls", "status", "type"),
    [
        ("rate_limit", anthropic.RateLimitError, 429, "rate_limit_error"),
        ("overloaded", anthropic.InternalServerError, 529, "overloaded_error"),
        ("server_error", anthropic.InternalServerError, 500, "api_error"),
        ("unauthorized", anthropic.AuthenticationError, 401, "authentication_error"),
        ("too_large", anthropic.RequestTooLargeError, 413, "request_too_large"),
        ("prompt_too_long", anthropic.BadRequestError, 400, "invalid_request_error"),
    ],
)
def test_u3_errors_have_the_class_and_type_of_the_api(kind: Kind, cls: type[Exception], status: int, type: str) -> None:
    error = raised(kind)
    assert isinstance(error, cls) and (error.status_code, error.type) == (status, type)


def test_u3_a_rate_limit_says_when_to_come_back() -> None:
    assert raised("rate_limit", retry_after=7.0).response.headers["retry-after"] == "7"
    assert "retry-after" not in raised("rate_limit", retry_after=None).response.headers


def test_u3_a_prompt_too_long_comes_with_and_without_numbers() -> None:
    with_numbers, without = raised("prompt_too_long", tokens=211_180, limit=200_000), raised("prompt_too_long", gap=False)
    assert "prompt is too long: 211180 tokens > 200000 maximum" in str(with_numbers)
    assert isinstance(without.body, dict) and without.body["error"]["message"] == "Prompt is too long"
    for error in (with_numbers, without):
        assert isinstance(error.body, dict)
        assert classify(error.status_code, error.body["error"]["message"], type=error.type or "").why == "too_long"


def test_u3_the_client_tries_again_by_itself() -> None:
    with Simulator(["ok"], faults=[Fault(kind="rate_limit", at=(1,), retry_after=0.01)]) as sim, client_of(sim, max_retries=1) as client:
        assert client.messages.create(**ASK).stop_reason == "end_turn"
        assert [record.status for record in sim.journal.records] == [429, 200]


def test_u3_an_error_inside_a_stream_that_began_well() -> None:
    """Section 4: the client's base class, status 200, the type of the error."""
    with Simulator([LONG], faults=[Fault(kind="error_event", at=(1,), events=5)]) as sim, client_of(sim) as client:
        events = []
        with pytest.raises(anthropic.APIStatusError) as caught, client.messages.create(**ASK, stream=True) as stream:
            for event in stream:
                events.append(event.type)
        assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")
        assert events == ["message_start", "content_block_start", "content_block_delta", "content_block_delta"]  # and a ping
        until = time.monotonic() + 5
        while sim.journal.records[0].whole and time.monotonic() < until:  # the server hears of it when it writes on
            time.sleep(0.01)
        assert sim.journal.records[0].whole is False


def test_u3_a_stream_that_breaks_in_the_middle() -> None:
    with Simulator([LONG, "ok"], faults=[Fault(kind="broken_stream", at=(1,), events=4)]) as sim, client_of(sim) as client:
        seen = []
        with pytest.raises(Exception) as caught, client.messages.create(**ASK, stream=True) as stream:
            for event in stream:
                seen.append(event.type)
        assert "incomplete" in str(caught.value) or "closed" in str(caught.value)
        assert seen == ["message_start", "content_block_start", "content_block_delta"]
        assert client.messages.create(**ASK).stop_reason == "end_turn"


def test_u3_a_short_stream_breaks_before_its_end() -> None:
    with Simulator(["ok"], faults=[Fault(kind="broken_stream", at=(1,), events=1_000)]) as sim, client_of(sim) as client:
        with pytest.raises(Exception), client.messages.create(**ASK, stream=True) as stream:  # noqa: B017
            list(stream)
        assert sim.journal.records[0].whole is False


def test_u3_a_connection_that_is_cut_before_the_answer() -> None:
    with Simulator(["ok"], faults=[Fault(kind="reset", at=(1,))]) as sim, client_of(sim) as client:
        with pytest.raises(anthropic.APIConnectionError):
            client.messages.create(**ASK)
        assert client.messages.create(**ASK).stop_reason == "end_turn"
        assert [record.status for record in sim.journal.records] == [0, 200]


def test_u3_a_slow_start_is_a_timeout_for_an_impatient_client() -> None:
    with Simulator(["ok", "ok"], faults=[Fault(kind="slow", at=(1,), seconds=0.5)]) as sim:
        with client_of(sim, timeout=0.1) as client, pytest.raises(anthropic.APITimeoutError):
            client.messages.create(**ASK)
        with client_of(sim) as client:
            assert client.messages.create(**ASK).stop_reason == "end_turn"


def test_u3_a_refusal_is_an_answer() -> None:
    with Simulator(["ok"], faults=[Fault(kind="refusal", at=(1,))]) as sim, client_of(sim) as client:
        answer = client.messages.create(**ASK)
        assert (answer.content, answer.stop_reason, answer.usage.input_tokens) == ([], "refusal", 6)
        assert client.messages.create(**ASK).stop_reason == "end_turn"


def test_u3_the_provider_s_compaction_can_be_unavailable() -> None:
    body: Any = {**ASK, "compaction": {"type": "summarize"}, "betas": ["compact-2026-09-04"]}
    with Simulator(faults=[Fault(kind="compaction_unavailable", at=(1,))]) as sim, client_of(sim) as client:
        with pytest.raises(anthropic.InternalServerError) as caught:
            client.beta.messages.create(**body)
        assert (caught.value.status_code, caught.value.error_code) == (529, "compaction_unavailable")
        assert client.beta.messages.create(**body).stop_reason == "compaction"


def test_u3_faults_come_by_chance_and_a_seed_repeats_them() -> None:
    def hits(seed: int) -> list[int]:
        faults = Faults([Fault(kind="overloaded", rate=0.2)], seed=seed)
        return [n for n in range(1, 501) if faults.next()]

    assert hits(1) == hits(1) != hits(2)
    assert 70 <= len(hits(1)) <= 130


def test_u3_openai_s_clients_meet_the_same() -> None:
    plan = [Fault(kind=kind, at=(n,)) for n, kind in enumerate(("rate_limit", "overloaded", "prompt_too_long", "error_event"), 1)]  # type: ignore[arg-type]
    with Simulator([LONG], faults=plan) as sim, openai_of(sim) as client:
        ask: Any = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "a"}]}
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(**ask)
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(**ask)
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**ask)
        assert caught.value.code == "context_length_exceeded"
        with pytest.raises(openai.APIError), client.chat.completions.create(**ask, stream=True) as stream:
            list(stream)


def test_u4_a_planned_fault_that_never_happened_fails() -> None:
    left = pytest.raises(LeftoverStepsError, match="only 1 requests came; planned faults are left: overloaded at 2")
    with left, Simulator([Reply("ok")], faults=[Fault(kind="overloaded", at=(2,))]) as sim, client_of(sim) as client:
        client.messages.create(**ASK)


def test_u3_faults_are_read_from_a_command_line() -> None:
    faults = read_faults(["overloaded@2,3", "rate_limit%50", '{"kind": "slow", "at": [1], "seconds": 0}'])
    assert [fault.kind if (fault := faults.next()) else None for _ in range(3)][1:] == ["overloaded", "overloaded"]
    for wrong in ("overloaded", "nonsense@1", "overloaded@x", "overloaded@0", "overloaded%200", '{"kind": "slow", "when": 1}'):
        with pytest.raises(SimulatorError):
            read_faults([wrong])
