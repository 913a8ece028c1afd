"""Section 6: a refused request made to fit and sent again, and when it is given up."""

from __future__ import annotations

import base64
import threading
from typing import Any

import msgspec
import pytest

from fivefold.core.events import Staged
from fivefold.core.messages import Document, Image, Text, ToolResult
from fivefold.core.rejection import Rejection
from fivefold.errors import IllegalEventError, MediaRejectedError, PromptTooLongError, RejectedError
from fivefold.hooks import Hooks
from fivefold.perform import Ports
from fivefold.providers.overflow import classify, classify_stop
from tests.build import assistant, call, refused, result, user
from tests.rules.talk import (
    BOUND,
    MODEL,
    Talk,
    Writer,
    loop_of,
    rounds_of,
    said,
    shown,
    summaries,
    talk,
    thoughtful,
    thoughts,
    too_long,
    usage,
    words,
    written,
)

REACTIVE = {"auto": {"reactive_only": True}}


def sent_talk(entries: Any, **more: Any) -> Talk:
    """A conversation whose request is at the provider."""
    more.setdefault("policy", REACTIVE)
    found = talk(entries, **more)
    found.driver.before_request()
    return found


def image(pixels: int, *, size: int = 3_000, **more: Any) -> Image:
    """A PNG of so many pixels a side and so many bytes."""
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + pixels.to_bytes(4, "big") * 2 + b"\x08\x06\x00\x00\x00"
    data = base64.b64encode(head + bytes(size)).decode()
    return Image({"type": "base64", "media_type": "image/png", "data": data}, more)


def media_left(found: Talk) -> int:
    """Images and documents in the request."""
    count = 0
    for message in found.driver.outgoing().messages:
        for block in message.blocks:
            parts = block.content if isinstance(block, ToolResult) and isinstance(block.content, tuple) else (block,)
            count += sum(isinstance(part, Image | Document) for part in parts)
    return count


# --- R1, R2: the order


def test_r1_whoever_sends_sees_a_refusal_only_where_recovery_fails() -> None:
    found = sent_talk(rounds_of(12, 1_500), window=200_000)
    again = found.driver.rejected(too_long(26_000, 20_000))
    assert again.send.transition == "reactive_compact_retry" and refused(again.request.messages) == []
    assert found.driver.tokens <= 20_000


def test_r2_too_much_output_is_lowered_first_with_the_same_messages() -> None:
    found = sent_talk(rounds_of(4, 500))
    view = found.driver.state.view
    shares = Rejection(why="output_too_large", message="too much", actual=190_000, limit=200_000, max_tokens=64_000)
    again = found.driver.rejected(shares)
    assert (again.send.max_tokens, again.send.transition) == (10_000, "max_tokens_retry")
    assert found.driver.state.view is view and summaries(found.driver.state) == []


def test_r2_output_is_not_lowered_to_next_to_nothing() -> None:
    found = sent_talk(rounds_of(12, 1_500), window=20_000)
    again = found.driver.rejected(Rejection(why="output_too_large", message="no", actual=19_500, limit=20_000, max_tokens=8_000))
    assert again.send.transition == "reactive_compact_retry" and again.send.max_tokens is None
    assert found.driver.tokens <= 20_000 - 1_024


def staged_talk() -> Talk:
    """A conversation with two stretches summarised beforehand, its request at the provider."""
    found = talk(rounds_of(8, 1_500), window=40_000, policy={"collapse": {"enabled": True}})
    for first, last in (("a1", "b1"), ("a2", "b2")):
        found.driver._now(Staged(first=first, last=last, text=f"Part {first[1]} was read."))
    found.driver.before_request()
    return found


def test_r2_x4_staged_collapses_are_committed_first_once_and_counted() -> None:
    found = staged_talk()
    assert found.driver.log.folds == ()
    again = found.driver.rejected(too_long(41_000, 40_000))
    assert again.send.transition == "collapse_drain_retry"
    assert found.named("retry") == [{"transition": "collapse_drain_retry", "committed": 2}]
    assert [placed.fold.level for placed in found.driver.log.folds] == ["collapse", "collapse"]
    after = found.driver.rejected(too_long(40_500, 40_000))
    assert after.send.transition == "reactive_compact_retry"


def test_r2_where_none_commits_it_goes_straight_on() -> None:
    found = sent_talk(rounds_of(12, 1_500), window=20_000)
    found.driver.rejected(too_long(26_000, 20_000))
    assert [event["transition"] for event in found.named("retry")] == ["reactive_compact_retry"]


# --- R3: what is peeled


def test_r3_whole_rounds_stay_verbatim_behind_the_summary_of_the_rest() -> None:
    writer = Writer([written("The first parts were read.")])
    entries = rounds_of(24, 1_000)
    found = sent_talk(entries, window=40_000, policy={**REACTIVE, "summary": {"method": "model"}}, ports=Ports(ask=writer))
    found.driver.rejected(too_long(43_000, 40_000))
    kept = [id for id in shown(found.driver.state) if id[0] in "uarb"]
    assert kept and kept == [entry.id for entry in entries][-len(kept) :]
    by_id = {entry.id: entry for entry in entries}
    assert all(entry == by_id[entry.id] for entry in found.driver.state.view.entries() if entry.id in by_id)
    assert "The first parts were read." in said(found.driver.state)


def test_r3_the_gap_that_the_error_tells_is_what_is_peeled() -> None:
    kept = {}
    for limit in (40_000, 20_000):
        writer = Writer([written("The first parts were read.")])
        policy = {**REACTIVE, "summary": {"method": "model", "keep_tokens": 1_000, "keep_entries": 1, "max_tokens": 1_000}}
        found = sent_talk(rounds_of(40, 1_000), window=200_000, policy=policy, ports=Ports(ask=writer))
        found.driver.rejected(too_long(limit + 9_000, limit))
        kept[limit] = sum(id[0] == "r" for id in shown(found.driver.state))
        assert len(writer.asked) == 1
    assert kept[40_000] >= 8


def test_r3_a_change_of_data_comes_before_any_summary() -> None:
    writer = Writer([written()])
    entries = [
        *loop_of(3, 200),
        assistant("a9", call("t9", "Bash", command="cat log"), api_id="m9"),
        user("r9", result("t9", words(11_000))),
    ]
    found = sent_talk(
        entries,
        window=20_000,
        policy={"auto": {"reactive_only": True}, "micro": {"result_percent": 100, "round_percent": 100}, "summary": {"method": "model"}},
        ports=Ports(ask=writer),
    )
    again = found.driver.rejected(too_long(21_000, 20_000))
    assert again.send.transition == "reactive_compact_retry" and writer.asked == [] and summaries(found.driver.state) == []
    assert found.named("folded")[0]["path"] == "trim" and "`recall` shows the whole: entry r9" in said(found.driver.state)
    assert found.driver.tokens <= 20_000


@pytest.mark.parametrize("before", [[], rounds_of(6, 700)], ids=["alone", "behind other rounds"])
def test_r3_where_what_is_kept_is_too_large_by_itself_its_media_go(before: Any) -> None:
    found = sent_talk([*before, user("u9", "Look.", *[image(1_500, size=900 + n) for n in range(12)])], window=20_000)
    again = found.driver.rejected(too_long(24_000, 20_000))
    assert again.send.transition == "reactive_compact_retry" and found.driver.tokens <= 20_000
    assert 0 < media_left(found) < 12 and "there was no room for it" in said(found.driver.state)
    assert "Look." in said(found.driver.state) and refused(again.request.messages) == []


# --- R4: media


def test_r4_a_refused_image_becomes_a_text_that_says_what_was_there() -> None:
    entries = [user("u1", "Look.", image(100, title="plan.png")), assistant("a1", "A plan.", api_id="m1"), user("u2", "Go on.")]
    found = sent_talk(entries)
    again = found.driver.rejected(Rejection(why="media", message="messages.0.content.1: image is broken", status=400, places=((0, 1),)))
    assert (again.send.transition, media_left(found)) == ("media_retry", 0)
    assert "[image left out: plan.png, image/png, 100 px on its longer side" in said(found.driver.state)
    assert summaries(found.driver.state) == []


def test_r4_only_the_named_one_goes() -> None:
    entries = [user("u1", "Look.", image(100), image(101)), assistant("a1", "Two.", api_id="m1"), user("u2", "Go on.")]
    found = sent_talk(entries)
    found.driver.rejected(Rejection(why="media", message="bad", places=((0, 2),)))
    kept = [block for block in found.driver.outgoing().messages[0].blocks if isinstance(block, Image)]
    assert kept == [image(100)]


def test_r4_all_that_are_over_the_side_that_is_told_go_at_once() -> None:
    entries = [user("u1", "Look.", image(1_900), image(2_100), image(3_000)), assistant("a1", "Three.", api_id="m1"), user("u2", "Go on.")]
    found = sent_talk(entries)
    found.driver.rejected(Rejection(why="media", message="dimensions exceed 2000", max_side=2_000))
    assert media_left(found) == 1


def test_r4_r9_where_it_does_not_say_which_the_largest_goes_first_then_half_then_all() -> None:
    images = [image(100, size=3_000 + 1_000 * n) for n in range(6)]
    found = sent_talk([user("u1", "Look.", *images), assistant("a1", "Six.", api_id="m1"), user("u2", "Go on.")])
    left = []
    for _ in range(3):
        found.driver.rejected(Rejection(why="media", message="an image could not be processed"))
        left.append(media_left(found))
    assert left == [5, 2, 0]
    with pytest.raises(MediaRejectedError, match="could not be processed"):
        found.driver.rejected(Rejection(why="media", message="an image could not be processed"))


def test_r4_of_equal_ones_the_oldest_goes_first() -> None:
    entries = [user("u1", image(100), "First."), assistant("a1", "Seen.", api_id="m1"), user("u2", image(100), "Second.")]
    found = sent_talk(entries)
    found.driver.rejected(Rejection(why="media", message="an image could not be processed"))
    texts = [entry.blocks[0] for entry in found.driver.state.view.entries() if entry.id in ("u1", "u2")]
    assert isinstance(texts[0], Text) and isinstance(texts[1], Image)


def test_r4_images_inside_results_and_documents_go_too() -> None:
    document = Document(
        {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(bytes(9_000)).decode()}, {"title": "a.pdf"}
    )
    entries = [
        user("u1", "Look.", document),
        assistant("a1", call("t1", "Read", file_path="x.png"), api_id="m1"),
        user("r1", result("t1", (Text("x.png:"), image(100)))),
    ]
    found = sent_talk(entries)
    found.driver.rejected(Rejection(why="media", message="bad"))
    assert "[document left out: a.pdf, application/pdf" in said(found.driver.state)
    found.driver.rejected(Rejection(why="media", message="bad"))
    assert media_left(found) == 0 and refused(found.driver.outgoing().messages) == []


def test_r4_i7_an_image_in_front_of_an_open_loops_bound_thinking_goes_with_the_loop() -> None:
    """Old images are refused where new ones have brought a conversation over the count for large ones; nothing in front of the loop's
    thinking may change, and waiting for its end would be for ever."""
    entries = [user("u0", "Look.", image(3_000)), *thoughtful(loop_of(4, 300))]
    found = sent_talk(entries, model=BOUND)
    again = found.driver.rejected(Rejection(why="media", message="dimensions exceed 2000", max_side=2_000))
    assert (again.send.transition, media_left(found), thoughts(found)) == ("reactive_compact_retry", 0, [])
    assert words(300, "part4") in said(found.driver.state) and refused(again.request.messages) == []
    dropped = sent_talk(entries, model=BOUND, policy={"thinking": {"drop_setting": True}})
    again = dropped.driver.rejected(Rejection(why="media", message="dimensions exceed 2000", max_side=2_000))
    assert (again.send.transition, again.send.drop_thinking, media_left(dropped)) == ("media_retry", True, 0)


def test_r10_media_recovery_has_its_own_switch() -> None:
    entries = [user("u1", "Look.", image(100))]
    off = sent_talk(entries, policy={"reactive": {"media": False}})
    with pytest.raises(MediaRejectedError):
        off.driver.rejected(Rejection(why="media", message="bad"))
    on = sent_talk(entries, policy={"reactive": {"enabled": False}})
    assert on.driver.rejected(Rejection(why="media", message="bad")).send.transition == "media_retry"


# --- R5, R6, R9: when it is given up


def test_r5_the_withheld_error_is_shown_with_the_providers_words_and_numbers() -> None:
    found = sent_talk([user("huge", words(20_000))], window=20_000)
    with pytest.raises(PromptTooLongError, match="prompt is too long: 27000 tokens > 20000 maximum") as error:
        found.driver.rejected(
            Rejection(why="too_long", message="prompt is too long: 27000 tokens > 20000 maximum", actual=27_000, limit=20_000)
        )
    assert (error.value.actual, error.value.limit) == (27_000, 20_000)
    assert found.driver.log.folds == ()


def test_r5_stop_failure_hooks_are_started_and_not_awaited() -> None:
    heard: list[dict[str, Any]] = []
    go, done = threading.Event(), threading.Event()

    def slow(payload: dict[str, Any]) -> None:
        go.wait(5)
        heard.append(payload)
        done.set()

    hooks = Hooks()
    hooks.add("stop_failure", slow)
    found = sent_talk([user("huge", words(20_000))], window=20_000, ports=Ports(hooks=hooks))
    with pytest.raises(PromptTooLongError):
        found.driver.rejected(too_long(27_000, 20_000))
    assert heard == []  # the error came while the hook was still at work
    go.set()
    assert done.wait(5) and heard[0]["reason"] == "prompt_too_long"


def test_r5_after_it_the_conversation_goes_on() -> None:
    found = sent_talk([user("huge", words(20_000))], window=20_000)
    with pytest.raises(PromptTooLongError):
        found.driver.rejected(too_long(27_000, 20_000))
    found.driver.snip("huge")
    found.driver.say(user("u2", "Forget it."))
    assert found.driver.before_request().request.messages


def test_r6_an_overflow_of_the_request_that_recovery_built_ends_the_turn() -> None:
    writer = Writer([written()])
    found = sent_talk(rounds_of(12, 1_500), window=20_000, policy={**REACTIVE, "summary": {"method": "model"}}, ports=Ports(ask=writer))
    found.driver.rejected(too_long(26_000, 20_000))
    calls, folds = len(writer.asked), found.driver.log.folds
    with pytest.raises(PromptTooLongError):
        found.driver.rejected(too_long(20_100, 20_000))
    assert len(writer.asked) == calls and found.driver.log.folds == folds


def test_r2_a_response_makes_room_for_the_next_recovery() -> None:
    found = sent_talk(rounds_of(12, 1_500), window=20_000)
    found.driver.rejected(too_long(26_000, 20_000))
    found.driver.replied(assistant("c1", "Done.", api_id="x1"))
    found.driver.say(*rounds_of(12, 1_500, start=30))
    found.driver.before_request()
    assert found.driver.rejected(too_long(26_000, 20_000)).send.transition == "reactive_compact_retry"


def test_r9_three_recoveries_in_a_row_and_then_the_error() -> None:
    found = staged_talk()
    found.driver.say(user("v", "And this?", *[image(100, size=3_000 + n) for n in range(4)]))
    transitions = [
        found.driver.rejected(Rejection(why="media", message="bad image")).send.transition,
        found.driver.rejected(too_long(41_000, 40_000)).send.transition,
        found.driver.rejected(too_long(40_500, 40_000)).send.transition,
    ]
    assert transitions == ["media_retry", "collapse_drain_retry", "reactive_compact_retry"]
    with pytest.raises(MediaRejectedError):
        found.driver.rejected(Rejection(why="media", message="bad image"))


def test_r9_each_recoverys_request_is_smaller_than_the_one_refused() -> None:
    found = sent_talk(rounds_of(12, 1_500), window=20_000)
    before = found.driver.state.ledger.estimated
    found.driver.rejected(too_long())
    assert found.driver.state.ledger.estimated < before


def test_r9_a_recovery_that_would_not_be_smaller_is_the_error() -> None:
    found = sent_talk([user("u1", "Short.")])
    with pytest.raises(PromptTooLongError):
        found.driver.rejected(too_long())
    with pytest.raises(MediaRejectedError):  # nothing there that could go
        sent_talk([user("u1", "Short.")]).driver.rejected(Rejection(why="media", message="bad"))


# --- R7, R8


def test_r7_in_reactive_only_mode_a_manual_compaction_is_level_4_too() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000, policy=REACTIVE)
    assert found.driver.compact().success
    assert found.driver.log.folds[-1].fold.level == "reactive"
    other = talk(rounds_of(12, 1_500), window=20_000)
    other.driver.compact()
    assert other.driver.log.folds[-1].fold.level == "manual"


def test_r8_a_body_that_is_too_large_loses_media_first_and_spends_no_compaction() -> None:
    entries = [
        user("u1", "Look.", image(100, size=60_000)),
        assistant("a1", "Seen.", api_id="m1"),
        *rounds_of(2, 300, start=2),
        user("u9", "Go on."),
    ]
    found = sent_talk(entries)
    size = found.driver.state.ledger.size().bytes
    again = found.driver.rejected(Rejection(why="bytes", message="request too large", status=413, actual=size, limit=size - 20_000))
    assert (again.send.transition, media_left(found)) == ("body_retry", 0)
    assert not found.driver.state.tracking.reacted and summaries(found.driver.state) == []


def test_r8_then_the_largest_results() -> None:
    entries = [
        user("u1", "Look.", image(100, size=6_000)),
        assistant("a1", "Seen.", api_id="m1"),
        *loop_of(1, 8_000, start=2),
        *loop_of(1, 300, start=3)[1:],
    ]
    found = sent_talk(entries)
    size = found.driver.state.ledger.size().bytes
    found.driver.rejected(Rejection(why="bytes", message="request too large", status=413, actual=size, limit=size - 18_000))
    assert media_left(found) == 0 and found.driver.state.ledger.size().bytes <= size - 18_000
    assert "entry r2" in said(found.driver.state) and "entry r3" not in said(found.driver.state)


# --- R10: what another overflow looks like


@pytest.mark.parametrize(
    "rejection",
    [
        classify_stop("model_context_window_exceeded", output_tokens=0, has_content=False),
        classify_stop("length", output_tokens=0, has_content=False),
        classify(400, "prompt is too long: 26000 tokens > 20000 maximum"),
        classify(400, "This model's maximum context length is 20000 tokens. However, your messages resulted in 26000 tokens."),
    ],
    ids=["stop reason", "empty answer cut for length", "Anthropic", "OpenAI"],
)
def test_r10_each_kind_of_overflow_is_recovered_by_the_same_path(rejection: Rejection | None) -> None:
    assert rejection is not None
    found = sent_talk(rounds_of(12, 1_500), window=20_000)
    assert found.driver.rejected(rejection).send.transition == "reactive_compact_retry"


def test_r10_t2_a_count_far_under_the_estimate_is_not_believed() -> None:
    entries = [*rounds_of(12, 1_500), user("v", "Go on."), assistant("z", "Done.", api_id="z", usage=usage(2_000))]
    found = talk(entries, window=200_000, overhead=None)
    assert found.driver.tokens > 20_000


def test_r10_rate_limits_that_speak_of_tokens_are_no_overflow() -> None:
    found = sent_talk(rounds_of(12, 1_500), window=20_000)
    limited = classify(429, "This request would exceed your rate limit of 20,000 input tokens per minute")
    with pytest.raises(RejectedError):
        found.driver.rejected(limited)
    assert found.driver.log.folds == ()


@pytest.mark.parametrize("source", ["compact", "session_memory", "collapse"])
def test_r10_never_for_requests_of_a_compaction_itself(source: str) -> None:
    found = talk(rounds_of(12, 1_500), window=20_000, policy=REACTIVE)
    found.driver.before_request(source=source)
    with pytest.raises(PromptTooLongError):
        found.driver.rejected(too_long(26_000, 20_000))
    assert found.driver.log.folds == ()


def test_r10_after_a_cancel_a_refusal_recovers_nothing() -> None:
    found = sent_talk(rounds_of(12, 1_500), window=20_000)
    found.driver.cancel()
    before = found.driver.state
    with pytest.raises(IllegalEventError, match="RequestRejected cannot happen"):
        found.driver.rejected(too_long(26_000, 20_000))
    assert found.driver.state is before
    assert found.driver.before_request().request.messages


def test_r4_only_what_is_over_the_side_goes_with_the_named_one() -> None:
    entries = [user("u1", "Look.", image(2_000), image(2_001), image(100)), assistant("a1", "Three.", api_id="m1"), user("u2", "Go on.")]
    found = sent_talk(entries)
    found.driver.rejected(Rejection(why="media", message="dimensions exceed 2000", places=((0, 2),), max_side=2_000))
    kept = [block for block in found.driver.outgoing().messages[0].blocks if isinstance(block, Image)]
    assert kept == [image(2_000), image(100)]


def test_w9_where_output_may_have_been_counted_the_refusal_proves_a_window_of_both() -> None:
    """OpenAI counts what is asked for as output into the window, Anthropic tells of it apart: what was sent, and one less, is proven."""
    for provider, asked in (("openai", 500), ("anthropic", 0)):
        model = msgspec.structs.replace(MODEL, provider=provider, id="m-2")
        found = talk(rounds_of(12, 1_500), model=model, policy=REACTIVE)
        used = found.driver.tokens
        found.driver.before_request(max_tokens=500)
        found.driver.rejected(too_long())
        assert [event["window"] for event in found.named("window_learned")] == [used + asked - 1]
