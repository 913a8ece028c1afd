"""``must`` of the cases about sizes: breakers, thrashing, overflow, estimates, settings, scripts of the world."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec

from fivefold.core.edits.shorten import head_and_tail
from fivefold.core.messages import ToolUse
from fivefold.core.rejection import Rejection
from fivefold.core.window import state_of
from fivefold.drive import Driver
from fivefold.errors import CannotFitError, PromptTooLongError, SummaryError
from fivefold.files import FileReader
from fivefold.hooks import Hooks
from fivefold.providers.overflow import classify
from fivefold.setup import make_setup
from fivefold.store.session import Session
from fivefold.summarize.parse import capped, shortened

from .probes import ALLOWED, Check, decides_to_compact, fresh, legal, registry, variant
from .runner import Run, policy_of, setup_of
from .world import Json, blocks_of, filler, plain, plain_tokens, text_of, texts

MUSTS: dict[tuple[str, int], Check] = {}
must = registry(MUSTS)
NEVER = {"error": {"status": 400, "type": "invalid_request_error", "message": "bad request"}}


# --- breaker


@must("breaker-02", 0)
def _(run: Run) -> None:
    assert max(Counter(asked.key for asked in run.asks).values()) <= 3
    grows = variant(run, "grows", steps=[{"append_rounds": 8, "repeat": 10}])
    assert sum(attempt.applied for attempt in grows.attempts) > 3, "it is over the threshold again and again"
    assert max(Counter(asked.key for asked in grows.asks).values()) <= 3
    assert len(grows.asks) <= 4


@must("breaker-02", 1)
def _(run: Run) -> None:
    assert any("bad request" in fields["why"] for fields in run.named("summary_failed"))
    [fold] = [placed.fold for placed in run.driver.log.folds]
    assert any("bad request" in why for why in fold.extra["tried"]), "and the fold itself says so"
    asked_for = variant(run, "asked-for", trigger="manual", steps=[])
    [error] = asked_for.errors
    assert isinstance(error, SummaryError) and "bad request" in str(error)
    hopeless = variant(run, "hopeless", window=800, threshold=0.3, summarizer=[NEVER], steps=[{"append_rounds": 1, "repeat": 5}])
    assert hopeless.named("breaker_opened"), "where nothing helps at all, the breaker says that it has opened"
    assert hopeless.driver.warnings.visible != "ok"


@must("breaker-02", 2)
def _(run: Run) -> None:
    tired = variant(run, "tired", steps=[{"append_rounds": 8, "repeat": 6}])
    asked = len(tired.asks)
    assert tired.driver.state.tracking.summary_failures >= 3
    other = make_setup("another-model", window=run.event["window"], policy=policy_of(run.event))
    driver = Driver(tired.driver.log, setup=other, ports=tired.driver.ports, clock=tired.world.clock)
    driver.compact(trigger="auto")
    assert len(tired.asks) > asked, "another model is asked again"
    config = {"auto": {"cooldown_seconds": 60}, "summary": {"method": "structural"}}
    open_breaker = variant(
        run, "cools", window=800, threshold=0.3, summarizer=[], config=config, steps=[{"append_rounds": 1, "repeat": 5}]
    )  # fmt: skip
    failed = len(open_breaker.named("compaction_failed"))
    assert open_breaker.named("breaker_opened")
    open_breaker.world.now += 61
    open_breaker.driver.replied()
    open_breaker.driver.before_request()
    assert len(open_breaker.named("compaction_failed")) == failed + 1, "after the cool-down it is tried once more"


def uncapped(run: Run, name: str, **event: Any) -> Run:
    """The same where neither the policy nor the model's output limit makes a summary shorter."""
    return variant(run, name, max_output=4_000, config={"summary": {"max_tokens": 1_000_000}}, **event)


@must("breaker-03", 0)
def _(run: Run) -> None:
    for attempt in run.attempts:
        assert not attempt.applied or attempt.view_after <= 0.9 * attempt.view_before
    long = uncapped(run, "long")
    for attempt in long.attempts:
        assert not attempt.applied or attempt.view_after <= 0.9 * attempt.view_before
    tracking = long.driver.state.tracking
    assert tracking.summary_failures == 1 or tracking.failures == 1, "a summary that could not be used counts"
    again = uncapped(run, "again", steps=[{"append_rounds": 10, "repeat": 8}])
    assert len(again.asks) <= 3 * 2, "after three of them the model is asked no more"


@must("breaker-03", 1)
def _(run: Run) -> None:
    assert len(run.asks) <= 3
    assert 0 < len(uncapped(run, "long").asks) <= 3


@must("breaker-03", 2)
def _(run: Run) -> None:
    huge = uncapped(run, "huge", summarizer=[{"text_tokens": 6_000}])
    for attempt in [*run.attempts, *huge.attempts]:
        assert attempt.view_after <= attempt.view_before
        assert plain_tokens(attempt.after) <= plain_tokens(attempt.before)


# --- thrash


@must("thrash-01", 0)
def _(run: Run) -> None:
    assert run.attempts[0].succeeded
    assert run.tokens <= 0.6 * run.event["window"]


@must("thrash-01", 1)
def _(run: Run) -> None:
    originals = {b["tool_use_id"]: b["content"] for m in run.original for b in blocks_of(m) if b.get("type") == "tool_result"}
    shown = {b["tool_use_id"]: b["content"] for m in run.now for b in blocks_of(m) if b.get("type") == "tool_result"}
    changed = [id for id, text in shown.items() if text != originals[id]]
    assert changed, "the newest result has to be shortened, not to vanish: the model has not seen it yet"
    for id in changed:
        before, after = originals[id], shown[id]
        assert before[:100] == after[:100] and before[-60:] == after[-60:]
        assert f"{len(before):,} characters" in after


@must("thrash-01", 2)
def _(run: Run) -> None:
    legal(run.now)
    assert any(block.get("type") == "tool_result" for message in run.now for block in blocks_of(message))


@must("thrash-02", 0)
def _(run: Run) -> None:
    window = run.event["window"]
    trigger = run.event["threshold"] * window
    assert run.tokens <= trigger - 0.3 * window


@must("thrash-02", 1)
def _(run: Run) -> None:
    [attempt] = run.attempts
    target = run.setup.window.auto * (1 - run.setup.policy.auto.headroom_percent / 100)
    assert attempt.succeeded and attempt.view_after <= target
    runner = fresh(run, summarizer=[], config={"pins": {"budget_percent": 100}})
    runner.run.driver.pin(filler(run.setup.window.auto * 0.4))
    try:
        plan = runner.run.driver.compact()
    except CannotFitError:
        return
    assert plan.after <= target


@must("thrash-02", 2)
def _(run: Run) -> None:
    assert text_of(run.case.messages[0]) in run.text


@must("thrash-04", 0)
def _(run: Run) -> None:
    assert run.asks == [] and run.sent and not run.sent[0].refused


@must("thrash-04", 1)
def _(run: Run) -> None:
    [failed] = run.named("compaction_failed")
    fixed = run.driver.state.ledger.overhead.tokens
    assert "fixed parts" in failed["why"] and "system prompt and tools" in failed["why"]
    assert any(name == "system prompt and tools" and tokens >= fixed for name, tokens in failed["largest"])


@must("thrash-04", 2)
def _(run: Run) -> None:
    assert run.driver.log.folds == ()
    roomy = variant(run, "roomy", window=12_000, force=True)
    assert all(attempt.view_after <= attempt.view_before for attempt in roomy.attempts)
    assert all(not attempt.applied for attempt in roomy.attempts), "its summary is longer than what was said"


# --- overflow


@must("overflow-01", 0)
def _(run: Run) -> None:
    assert run.asks
    for asked in run.asks:
        assert asked.tokens + asked.ask.max_tokens <= run.event["summarizer_window"]


@must("overflow-01", 1)
def _(run: Run) -> None:
    assert run.attempts[0].succeeded and run.errors == []
    assert "Part summary." in run.text


@must("overflow-01", 2)
@must("overflow-07", 2)
def _(run: Run) -> None:
    legal(run.now, open_end=False)


@must("overflow-01", 3)
def _(run: Run) -> None:
    assert text_of(run.case.messages[-1]) in run.text


@must("overflow-04", 0)
def _(run: Run) -> None:
    assert shown_result(run, "toolu_od2") != result_of(run, "toolu_od2")
    assert plain(shown_result(run, "toolu_od2")) < plain(result_of(run, "toolu_od2")) / 2


@must("overflow-04", 1)
def _(run: Run) -> None:
    for message in run.case.messages:
        assert message["role"] != "user" or not isinstance(message["content"], str) or message in run.now


@must("overflow-04", 2)
def _(run: Run) -> None:
    assert shown_result(run, "toolu_od1") == result_of(run, "toolu_od1")


def result_of(run: Run, id: str) -> str:
    """A result as it was said."""
    return _result(run.original, id)


def shown_result(run: Run, id: str) -> str:
    """A result as it would be sent."""
    return _result(run.now, id)


def _result(messages: Sequence[Json], id: str) -> str:
    [found] = [b for m in messages for b in blocks_of(m) if b.get("type") == "tool_result" and b["tool_use_id"] == id]
    return text_of({"content": [found]})


@must("overflow-05", 0)
def _(run: Run) -> None:
    assert run.asks and all(asked.tokens + asked.ask.max_tokens <= 4_000 for asked in run.asks)


@must("overflow-05", 1)
def _(run: Run) -> None:
    guard = {**run.event["summarizer"][0], "refuse_if_input_plus_max_tokens_over": 500}
    refused = variant(run, "refused", trigger="manual", summarizer=[guard])
    assert refused.asks and all(isinstance(asked.reply, Rejection) and asked.reply.why == "output_too_large" for asked in refused.asks)
    [error] = refused.errors
    assert "max_tokens is too large" in str(error) and "empty" not in str(error)
    sizes = [asked.tokens + asked.ask.max_tokens for asked in refused.asks]
    assert all(later < earlier for earlier, later in pairwise(sizes)), "each one asks for less"


@must("overflow-05", 2)
def _(run: Run) -> None:
    assert run.attempts[0].succeeded and "UI tests: ten modules read." in run.text


@must("overflow-06", 0)
def _(run: Run) -> None:
    assert run.asks and len({asked.key for asked in run.asks}) == len(run.asks)


@must("overflow-06", 1)
def _(run: Run) -> None:
    whole = plain_tokens(run.original)
    assert all(asked.tokens < whole for asked in run.asks)
    guard = {**run.event["summarizer"][0], "refuse_over": 600}
    tight = variant(run, "tight", summarizer=[guard, *run.event["summarizer"][1:]])
    sizes = [asked.tokens for asked in tight.asks]
    assert len(sizes) > 1 and all(later < earlier for earlier, later in pairwise(sizes))


@must("overflow-06", 2)
def _(run: Run) -> None:
    never = variant(run, "never", trigger="manual", summarizer=[{**run.event["summarizer"][0], "refuse_over": 1}])
    [error] = never.errors
    assert isinstance(error, SummaryError)
    assert "prompt is too long" in str(error) and "1,500" in str(error) and "tokens sent" in str(error)
    assert never.now == never.original


@must("overflow-07", 0)
def _(run: Run) -> None:
    [attempt] = run.attempts
    assert attempt.succeeded
    kept = [message for message in attempt.after if message in run.original]
    assert kept, "the newest rounds stay word for word"
    assert kept == run.original[len(run.original) - len(kept) :]
    assert kept[0]["role"] == "assistant" and blocks_of(kept[0])[-1]["type"] == "tool_use"


@must("overflow-07", 1)
def _(run: Run) -> None:
    assert text_of(run.case.messages[0]) in run.text


@must("overflow-07", 3)
def _(run: Run) -> None:
    threshold = run.event["threshold"] * run.event["window"]
    assert run.tokens < threshold and run.driver.tokens < threshold


# --- estimates


@must("estimation-02", 0)
def _(run: Run) -> None:
    assert run.driver.tokens >= 2_500


@must("estimation-02", 1)
def _(run: Run) -> None:
    assert decides_to_compact(run)


@must("estimation-02", 2)
def _(run: Run) -> None:
    driver = fresh(run).run.driver
    entries = list(driver.log.entries())
    place, entry = next((i, e) for i, e in enumerate(entries) if any(isinstance(b, ToolUse) for b in e.blocks))
    grown = tuple(msgspec.structs.replace(b, input={**b.input, "more": filler(100)}) if isinstance(b, ToolUse) else b for b in entry.blocks)
    measure = driver.state.measure
    assert measure(msgspec.structs.replace(entry, blocks=grown)).tokens >= measure(entries[place]).tokens + 100


@must("estimation-03", 0)
def _(run: Run) -> None:
    assert run.driver.tokens >= 2_800


@must("estimation-03", 1)
def _(run: Run) -> None:
    assert decides_to_compact(run)


@must("estimation-03", 2)
def _(run: Run) -> None:
    forced = variant(run, "forced", trigger="auto", force=True)
    [error] = forced.errors
    assert isinstance(error, CannotFitError) and "fixed parts" in str(error)
    assert not forced.attempts[0].applied and forced.now == forced.original


@must("estimation-05", 0)
def _(run: Run) -> None:
    assert not decides_to_compact(run)
    assert run.named("compaction_started") == []


@must("estimation-05", 1)
def _(run: Run) -> None:
    assert run.driver.tokens < 1_000
    path = run.path / "resumed.jsonl"
    with Session.create(path, run.driver.log.head, fsync="never") as session:
        session.append(*run.driver.log.records())
    with Session.open(path, readonly=True) as session:
        assert session.log.base > 0, "only what the view needs is loaded"
        resumed = Driver(session.log, setup=run.setup)
        assert resumed.tokens < 1_000, "nor does it after a restart"


@must("estimation-05", 2)
def _(run: Run) -> None:
    assert "usage" in run.case.messages[1]
    assert all(set(message) == {"role", "content"} for message in [*run.now, *run.sent[-1].messages])


@must("estimation-06", 0)
def _(run: Run) -> None:
    window = run.driver.state.setup.window
    assert window.context == 1_000_000
    assert abs(100 * run.driver.tokens / window.context - 17.7) <= 0.5


@must("estimation-06", 1)
def _(run: Run) -> None:
    window, used = run.setup.window, run.driver.tokens
    assert state_of(used, window).percent_left == round(100 * (window.auto - used) / window.auto)
    assert state_of(window.auto - 1, window).percent_left == 0 and not state_of(window.auto - 1, window).above_auto
    assert state_of(window.auto, window).above_auto
    assert window.auto == 1_000_000 - 20_000 - 13_000


@must("estimation-06", 2)
def _(run: Run) -> None:
    off = fresh(run, config={"auto": False}).run
    window = off.setup.window
    assert window.auto == window.effective == 1_000_000 - 20_000
    assert state_of(900_000, window).percent_left == 8 > state_of(900_000, run.setup.window).percent_left
    assert not state_of(window.auto - 1, window).above_auto


# --- scripts of the world


@must("i18n-01", 0)
def _(run: Run) -> None:
    assert 450 <= run.driver.tokens <= 1_100 * ALLOWED


@must("i18n-01", 1)
def _(run: Run) -> None:
    assert run.driver.tokens > 640 and decides_to_compact(run)
    window = run.setup.window
    assert state_of(640, window).above_auto and not state_of(639, window).above_auto


@must("i18n-01", 2)
def _(run: Run) -> None:
    config = {"trigger": "auto", "force": True, "window": 4_000, "threshold": 0.8, "keep_recent_tokens": 200}
    messages = [*run.case.messages[:-1] * 4, run.case.messages[-1]]
    for name, answers in (("model", [{"text": "错误提示已改。"}]), ("structural", [])):
        kept = variant(run, name, messages=messages, summarizer=answers, **config)
        assert kept.attempts[0].succeeded, kept.errors
        left = [message for message in kept.now if message in messages]
        assert left[-1] == messages[-1] and sum(plain(text_of(message)) for message in left) <= 300


@must("i18n-03", 0)
def _(run: Run) -> None:
    json.dumps(run.now, ensure_ascii=False).encode("utf-8")
    for message in run.now:
        text_of(message).encode("utf-8")


@must("i18n-03", 1)
def _(run: Run) -> None:
    text = text_of(run.case.messages[-1])
    [size] = run.event["config"]["truncate_to"]
    for most in range(size - 3, size + 4):  # a pair of halves is cut somewhere among these
        cuts = [
            head_and_tail(text, most, "`recall` shows the whole."),
            shortened(text, most),
            capped(text, most, plain),
            capped(text, most, lambda part: len(part.encode("utf-8"))),
        ]
        for cut in cuts:
            assert len(cut) < len(text)
            cut.encode("utf-8")
        (run.path / "emoji.txt").write_text(text, encoding="utf-8")
        read = FileReader([run.path], most_bytes=most)([str(run.path / "emoji.txt")])
        [file] = read.files
        assert file.text[:4] == text[:4] and "\ufffd" not in file.text, f"a file read up to byte {most}"
        file.text.encode("utf-8")
    hooks = Hooks()
    hooks.add("post_compact", lambda payload: {"additional_context": text[0] + "\ud83d"})
    [heard] = hooks.run("post_compact", {}, 5.0).context
    heard.encode("utf-8")


@must("i18n-03", 2)
def _(run: Run) -> None:
    assert "Cancelled: ls /data/Boards/" in run.text and "errored" in run.text


# --- settings


@must("config-02", 0)
def _(run: Run) -> None:
    assert run.asks == [] and run.now == run.original
    assert run.named("compaction_started") == [] and run.named("folded") == []
    quiet = variant(run, "quiet", trigger="auto", provider=None, config={"auto": False, "micro": {"time_clear": True}})
    assert quiet.now == quiet.original


@must("config-02", 1)
def _(run: Run) -> None:
    [refused] = [error for error in run.errors if isinstance(error, PromptTooLongError)]
    assert (refused.actual, refused.limit) == (4_300, 3_500)


@must("config-02", 2)
def _(run: Run) -> None:
    by_hand = variant(run, "by-hand", trigger="manual", force=True, provider=None)
    assert by_hand.attempts[0].succeeded and by_hand.errors == []


@must("config-03", 0)
def _(run: Run) -> None:
    assert [asked.model for asked in run.asks] == ["small-1", "big-1"]
    assert any(
        "small-1 failed: model not found" in fields["text"] and "big-1 wrote it" in fields["text"] for fields in run.named("summary_note")
    )


@must("config-03", 1)
def _(run: Run) -> None:
    driver = run.driver
    assert driver.state.setup.model.id == "big-1" and driver.log.head.model == "big-1"
    assert "small-1" not in json.dumps(run.now)
    kinds = {block["type"] for message in run.now for block in blocks_of(message)}
    assert kinds <= {"text", "tool_use", "tool_result"}
    assert setup_of(run.event, driver.log.head).model.id == "big-1"


@must("config-03", 2)
def _(run: Run) -> None:
    [fold] = [placed.fold for placed in run.driver.log.folds]
    answered = [asked.reply.usage for asked in run.asks if not isinstance(asked.reply, Rejection)]
    assert fold.usage is not None and fold.usage == answered[-1]
    assert fold.extra["model"] == "big-1" and fold.extra["llm_calls"] == 2
    assert fold.tokens_after == run.driver.tokens, "and it is no part of the size"


@must("provider-01", 0)
def _(run: Run) -> None:
    for status, message in run.event["overflow"]:
        assert classify(status, message).why == ("bytes" if status == 413 else classify(status, message).why)
        assert classify(status, message).why in ("too_long", "output_too_large", "bytes")


@must("provider-01", 1)
def _(run: Run) -> None:
    for status, message in run.event["not_overflow"]:
        assert classify(status, message).why in ("transient", "other", "media")


@must("provider-01", 2)
def _(run: Run) -> None:
    told = [classify(status, message) for status, message in run.event["overflow"]]
    numbers = {(found.actual, found.limit, found.max_tokens) for found in told if found.actual is not None}
    assert numbers == {
        (205_030, 200_000, None),
        (196_758, 200_000, 8_192),
        (138_956, 131_072, None),
        (509_178, 272_000, None),
        (1_058_724, 1_048_576, None),
        (400_007, 278_528, None),
        (140_000, 131_072, None),
        (124_071, 123_904, None),
    }


@must("provider-04", 0)
def _(run: Run) -> None:
    error = run.event["provider"][0]["error"]
    found = classify(error["status"], error["message"])
    assert (found.actual, found.max_tokens, found.limit) == (3_300, 1_000, 4_000)


@must("provider-04", 1)
def _(run: Run) -> None:
    first, retry = run.sent
    assert first.refused and not retry.refused
    assert retry.max_tokens is not None and 400 <= retry.max_tokens <= 700
    assert retry.messages == first.messages and run.driver.log.folds == ()
    tight = variant(run, "tight", config={"min_output": 900})
    assert tight.driver.log.folds, "no room for so much output: then it is compacted"


@must("provider-04", 2)
def _(run: Run) -> None:
    said = [message for message in run.case.messages if isinstance(message["content"], str) and message["role"] == "user"]
    assert all(text_of(message) in texts(run.now) for message in said)
