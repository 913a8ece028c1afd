"""Section 14: hooks around a compaction, and the events that tell of it."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from fivefold.core.actions import Emit
from fivefold.core.policy import Policy
from fivefold.errors import PolicyError, VetoedError
from fivefold.hooks import Hooks
from fivefold.perform import Ports
from tests.build import assistant, user
from tests.rules.talk import Talk, Writer, rounds_of, said, setup_of, shown, summaries, talk, too_long, written


def hooked(name: Any, hook: Any, *, policy: dict[str, Any] | None = None, **more: Any) -> Talk:
    """A conversation that is due for a compaction, with a hook."""
    hooks = Hooks()
    hooks.add(name, hook)
    return talk(rounds_of(12, 1_500), window=20_000, policy=policy, ports=Ports(hooks=hooks, **more))


# --- P1


def test_p1_a_policy_reaches_the_conversation_and_an_unknown_or_impossible_field_is_refused_by_name() -> None:
    assert setup_of(200_000, {"window": {"threshold_tokens": 50_000}}).window.auto == 50_000
    for values, name in (({"auto": {"max_failure": 3}}, "max_failure"), ({"auto": {"headroom_percent": 120}}, "headroom_percent")):
        with pytest.raises(PolicyError, match=name):
            Policy.of(values)


# --- P2


def test_p2_a_pre_compact_hook_is_told_and_may_add_instructions() -> None:
    told: list[dict[str, Any]] = []

    def hook(payload: dict[str, Any]) -> dict[str, str]:
        told.append(payload)
        return {"instructions": "Mind the birds."}

    writer = Writer([written()])
    found = hooked("pre_compact", hook, policy={"summary": {"method": "model"}}, ask=writer)
    found.driver.before_request()
    assert [(payload["trigger"], payload["tokens"], payload["threshold"]) for payload in told] == [("auto", 25_408, 13_400)]
    assert "Mind the birds." in writer.asked[0].text


def test_p2_a_veto_leaves_everything_as_it_was_and_is_no_failure() -> None:
    found = hooked("pre_compact", lambda payload: {"veto": "not now"})
    sent = found.driver.before_request()
    assert found.driver.log.folds == () and sent.request.messages
    assert found.named("compaction_vetoed") == [{"why": "not now"}] and found.driver.state.tracking.failures == 0
    found.driver.cancel()
    with pytest.raises(VetoedError, match="not now"):
        found.driver.compact()
    assert found.driver.log.folds == ()


def test_p2_r5_a_veto_of_a_recovery_ends_the_turn_with_the_hooks_reason() -> None:
    found = hooked("pre_compact", lambda payload: {"veto": "not now"}, policy={"auto": {"reactive_only": True}})
    found.driver.before_request()
    with pytest.raises(VetoedError, match="not now"):
        found.driver.rejected(too_long(26_000, 20_000))
    assert found.driver.before_request().request.messages


def test_p2_a_post_compact_hook_hears_the_numbers_and_its_text_is_put_back() -> None:
    told: list[dict[str, Any]] = []

    def hook(payload: dict[str, Any]) -> str:
        told.append(payload)
        return "Noted in the diary."

    found = hooked("post_compact", hook)
    found.driver.before_request()
    assert told[0]["tokens"] == 25_408 and told[0]["tokens_after"] == found.driver.log.folds[-1].fold.tokens_after
    assert told[0]["fold"] == found.driver.log.folds[-1].fold.id
    *_, last = found.driver.state.view.sent()
    assert last.kind == "attachment" and "Noted in the diary." in said(found.driver.state)


@pytest.mark.parametrize("name", ["pre_compact", "session_start", "post_compact"])
def test_p2_a_failing_hook_is_said_and_never_loses_the_conversation(name: Any) -> None:
    def broken(payload: dict[str, Any]) -> str:
        raise KeyError("gone")

    found = hooked(name, broken)
    found.driver.before_request()
    assert summaries(found.driver.state) and "b12" in shown(found.driver.state)
    (failed,) = found.named("hook_failed")
    assert failed["hook"] == name and "KeyError" in failed["why"]


def test_p2_a_slow_hook_is_bounded_in_time() -> None:
    found = hooked("pre_compact", [sys.executable, "-c", "import time; time.sleep(30)"], policy={"hooks": {"seconds": 1}})
    began = time.monotonic()
    found.driver.before_request()
    assert time.monotonic() - began < 10
    assert summaries(found.driver.state) and "within 1 s" in found.named("hook_failed")[0]["why"]


def test_p2_a_shell_command_reads_the_payload_as_json() -> None:
    script = "import json, sys; told = json.load(sys.stdin); print(json.dumps({'veto': told['trigger'] + ' is vetoed'}))"
    found = hooked("pre_compact", [sys.executable, "-c", script])
    found.driver.before_request()
    assert found.named("compaction_vetoed") == [{"why": "auto is vetoed"}]


# --- P3


def test_p3_one_listener_hears_everything_in_its_order() -> None:
    heard: list[Emit] = []
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.listen = heard.append
    found.driver.snip("r2")
    found.driver.before_request()
    found.driver.rejected(too_long(21_000, 20_000))
    assert [emit.name for emit in heard] == ["folded", *2 * ["compaction_started", "compaction_finished"], "retry"]


def test_p3_no_content_of_the_conversation_is_in_an_event() -> None:
    found = talk([*rounds_of(12, 1_500), user("v", "The password is xyzzy.")], window=20_000, policy={"auto": {"reactive_only": True}})
    found.driver.pin("The password is xyzzy.")
    found.driver.before_request()
    found.driver.rejected(too_long(26_000, 20_000))
    found.driver.replied(assistant("x", "The password is xyzzy.", api_id="y"))
    found.driver.compact()
    assert len(found.events) >= 4
    told = repr(found.events)
    assert "xyzzy" not in told and "nothing to see here" not in told and "value_1" not in told


def test_p3_a_listener_that_fails_is_the_callers_to_know_and_loses_nothing() -> None:
    """(P3, K1) The conversation is what it was, or what was announced; never half of it."""
    found = talk(rounds_of(12, 1_500), window=20_000)
    before = found.driver.state

    def broken(emit: Emit) -> None:
        raise OSError("the sink is full")

    found.driver.listen = broken
    with pytest.raises(OSError, match="full"):
        found.driver.before_request()
    assert found.driver.state is before
    found.driver.listen = None
    found.driver.before_request()
    assert summaries(found.driver.state)


def test_k5_p3_a_keeper_that_fails_is_told_and_gets_everything_when_it_works_again() -> None:
    kept: list[Any] = []
    broken = [True]

    class Keeper:
        def append(self, *records: Any) -> None:
            if broken[0]:
                raise OSError(28, "No space left on device")
            kept.extend(records)

    found = talk([], keeper=Keeper())
    found.driver.say(user("u1", "One."))
    found.driver.say(user("u2", "Two."))
    assert [event["records"] for event in found.named("not_kept")] == [1, 2] and len(found.driver.log) == 2
    broken[0] = False
    found.driver.say(user("u3", "Three."))
    assert [record.id for record in kept if record.kind != "note"] == ["u1", "u2", "u3"]
