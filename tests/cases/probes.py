"""What a case's ``probe`` asks for, each key in general terms, and what holds for every case.

A check takes a run and the value that the probe gives, and raises AssertionError. Sizes are the cases' plain estimate; where a
number is the engine's own estimate, the cases allow it a quarter more or less.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from fivefold.core.rejection import Rejection
from fivefold.errors import FivefoldError
from fivefold.formats.anthropic_messages import decode
from fivefold.providers.overflow import classify
from fivefold.store.search import read_back, recall
from tests.build import invariants

from .runner import SUMMARY, Run, Runner, run_case
from .world import Json, blocks_of, encoded, plain, plain_tokens, text_of

ALLOWED = 1.25
"""So much another estimator than the plain one may differ."""


def legal(messages: Sequence[Json], *, open_end: bool = True) -> None:
    """The independent validator has nothing against a request."""
    assert list(invariants.check(messages, allow_pending=open_end, strict_alternation=True)) == []


def variant(run: Run, name: str, *, messages: Sequence[Json] | None = None, steps: Any = None, **event: Any) -> Run:
    """The same case with some of its event changed; None takes a key away."""
    changed = {key: value for key, value in {**run.event, **event}.items() if value is not None}
    if steps is not None:
        changed["steps"] = steps
    case = replace(run.case, event=changed, messages=list(messages) if messages is not None else run.case.messages)
    return run_case(case, run.path / name)


def fresh(run: Run, **event: Any) -> Runner:
    """A runner of the same case of which nothing has been done yet."""
    changed = {key: value for key, value in {**run.event, **event}.items() if value is not None}
    path = run.path / f"fresh-{len(list(run.path.iterdir()))}"
    path.mkdir()
    return Runner(replace(run.case, event=changed), path)


Check = Callable[[Run], None]


def registry(known: dict[tuple[str, int], Check]) -> Callable[..., Callable[[Check], Check]]:
    """A decorator that notes a check as that of one or several lines of a case's ``must``."""

    def must(case: str, *lines: int) -> Callable[[Check], Check]:
        def noted(check: Check) -> Check:
            for line in lines:
                assert (case, line) not in known, f"{case} {line} has two checks"
                known[case, line] = check
            return check

        return noted

    return must


def decides_to_compact(run: Run) -> bool:
    """Whether the engine, asked for the request that is due, finds a compaction due."""
    runner = fresh(run, trigger="auto")
    heard: list[str] = []
    runner.run.driver.listen = lambda emit: heard.append(emit.name)
    runner.run.driver.before_request()
    return "compaction_started" in heard


# --- the keys of a probe


def max_summarizer_calls(run: Run, most: int) -> None:
    assert len(run.asks) <= most, [asked.tokens for asked in run.asks]


def no_identical_summarizer_requests(run: Run, wanted: bool) -> None:
    """But after an error that goes away, which is asked again as it was (L8)."""
    seen: set[str] = set()
    for before, asked in zip([None, *run.asks], run.asks, strict=False):
        again = before is not None and isinstance(before.reply, Rejection) and before.reply.why == "transient"
        assert again or asked.key not in seen
        seen.add(asked.key)


def summarizer_models(run: Run, models: list[str]) -> None:
    assert [asked.model for asked in run.asks] == models


def max_summarizer_request_tokens(run: Run, most: int) -> None:
    assert run.asks and max(asked.tokens for asked in run.asks) <= most


def max_summarizer_request_plus_output(run: Run, most: int) -> None:
    assert run.asks and max(asked.tokens + asked.ask.max_tokens for asked in run.asks) <= most


def summarizer_request_valid(run: Run, wanted: bool) -> None:
    """Where the window is too small for any request at all, it is looked at in a larger one."""
    asks = run.asks or variant(run, "valid", window=run.event["window"] * 20).asks
    assert asks
    for asked in asks:
        legal(asked.messages, open_end=False)


def summarizer_request_thinking_ok(run: Run, wanted: bool) -> None:
    """All thinking of the newest assistant message as it was, or none at all; sealed data in no text."""
    originals = [thinking_of(message) for message in run.original if message["role"] == "assistant"]
    assert run.asks and any(originals)
    sealed = [block["data"] for blocks in originals for block in blocks if "data" in block]
    for asked in run.asks:
        found = [thinking_of(message) for message in asked.messages if message["role"] == "assistant"]
        assert not any(found) or found[-1] in originals
        assert not any(data[:40] in asked.text for data in sealed)


def thinking_of(message: Json) -> list[Json]:
    """The thinking blocks of a message."""
    return [block for block in blocks_of(message) if block.get("type") in ("thinking", "redacted_thinking")]


def thinking_identical_or_absent(run: Run, wanted: bool) -> None:
    known = [block for message in run.case.messages for block in thinking_of(message)]
    for messages in [run.now, *(sent.messages for sent in run.sent)]:
        assert all(block in known for message in messages for block in thinking_of(message))


def second_summarizer_input_contains(run: Run, wanted: list[str]) -> None:
    number = sorted({asked.attempt for asked in run.asks})[1]
    given = "\n".join(asked.text for asked in run.asks if asked.attempt == number)
    assert all(text in given for text in wanted)


def no_tool_executed(run: Run, wanted: bool) -> None:
    """There is nothing that could run a tool; and no request pretends that one ran."""
    assert run.world.executed_tools == 0
    called = [asked for asked in run.asks if getattr(asked.reply, "called_tool", False)]
    assert called
    known = tool_ids(run.original)
    assert all(tool_ids(asked.messages) <= known for asked in run.asks)


def max_extractor_calls(run: Run, most: int) -> None:
    assert len(run.world.extractions) <= most


def history_unchanged(run: Run, wanted: bool) -> None:
    assert run.now == run.original


def history_unchanged_after_first(run: Run, wanted: bool) -> None:
    assert run.attempts[0].after == run.attempts[0].before
    assert not run.attempts[0].applied


def history_not_lost(run: Run, wanted: bool) -> None:
    nothing_lost(run)
    assert len(run.now) > 0


def raises(run: Run, wanted: bool) -> None:
    assert bool(run.errors) is wanted and all(isinstance(error, FivefoldError) for error in run.errors)


def invariants_hold(run: Run, wanted: bool) -> None:
    legal(run.now, open_end=run.case.allow_pending)


def invariants_after_steps(run: Run, wanted: bool) -> None:
    legal(run.now, open_end=False)


def contains(run: Run, wanted: list[str]) -> None:
    seen = "\n".join([run.world.system, run.text, *inputs(run.now)])
    assert [text for text in wanted if text not in seen] == []


def not_contains(run: Run, unwanted: list[str]) -> None:
    seen = "\n".join([run.text, *inputs(run.now)])
    assert [text for text in unwanted if text in seen] == []


def inputs(messages: Sequence[Json]) -> list[str]:
    """What calls say, which the model reads too."""
    uses = [block for message in messages for block in blocks_of(message) if block.get("type") in ("tool_use", "server_tool_use")]
    return [json.dumps(block["input"], ensure_ascii=False) for block in uses]


def not_tool_result(run: Run, ids: list[str]) -> None:
    for messages in [run.now, *(sent.messages for sent in run.sent)]:
        sent = {block["tool_use_id"] for message in messages for block in blocks_of(message) if block.get("type") == "tool_result"}
        assert sent.isdisjoint(ids)


def keeps_tool_use(run: Run, ids: list[str]) -> None:
    for messages in [run.now, *(attempt.after for attempt in run.attempts)]:
        assert set(ids) <= tool_ids(messages)


def tool_ids(messages: Sequence[Json]) -> set[str]:
    """The ids of all calls of a list."""
    return {block["id"] for message in messages for block in blocks_of(message) if block.get("type") == "tool_use"}


def min_est_tokens(run: Run, least: int) -> None:
    assert run.driver.tokens >= least / ALLOWED


def max_est_tokens(run: Run, most: int) -> None:
    """The engine's own estimate where that is what is asked for; else the size of what would be sent."""
    if run.event["trigger"] in ("estimate", "meter") or "boundary_index" in run.event:
        assert run.driver.tokens <= most * ALLOWED
    assert run.tokens <= most


def should_compact(run: Run, wanted: bool) -> None:
    assert decides_to_compact(run) is wanted


def used_percent(run: Run, wanted: float) -> None:
    assert abs(100 * run.driver.tokens / run.driver.state.setup.window.context - wanted) <= 0.5


def pre_hook_calls(run: Run, count: int) -> None:
    assert sum(call.name == "pre_compact" for call in run.world.hook_calls) == count


def post_hook_calls(run: Run, count: int) -> None:
    assert sum(call.name == "post_compact" for call in run.world.hook_calls) == count


def max_body_bytes(run: Run, most: int) -> None:
    assert run.sent[-1].bytes <= most and not run.sent[-1].refused
    assert all(asked.bytes <= most for asked in run.asks)


def retry_max_tokens(run: Run, most: int) -> None:
    first, retry = run.sent[:2]
    assert first.refused and not retry.refused
    assert retry.max_tokens is not None and run.event.get("config", {}).get("min_output", 1) <= retry.max_tokens <= most


def summary_blocks(run: Run, count: int) -> None:
    assert len(run.summaries()) == count
    assert run.text.count("<conversation-summary>") == count
    assert not SUMMARY.search(run.text)


def max_summary_tokens(run: Run, most: int) -> None:
    """What a summary holds between its marks."""
    assert run.summaries()
    for attempt in run.attempts:
        for text in map(text_of, attempt.after):
            if "<conversation-summary>" in text:
                assert plain(body_of(text)) <= most


def body_of(text: str) -> str:
    """What stands between the marks of a summary."""
    return text.split("<conversation-summary>", 1)[-1].rsplit("</conversation-summary>", 1)[0].strip()


def cancel_within_s(run: Run, seconds: float) -> None:
    cancelled = [attempt for attempt in run.attempts if attempt.cancelled]
    assert cancelled and all(attempt.cancel_seconds is not None and attempt.cancel_seconds <= seconds for attempt in cancelled)


def deterministic(run: Run, wanted: bool) -> None:
    assert run.projections and json.dumps(run.projections[0][0]) == json.dumps(run.projections[0][1])


def idempotent(run: Run, wanted: bool) -> None:
    assert len(run.projections) > 1 and json.dumps(run.projections[1][0]) == json.dumps(run.projections[1][1])


def load_equals_live(run: Run, wanted: bool) -> None:
    assert run.loads and all(before == after for before, after in run.loads)


def load_is_old_or_new(run: Run, wanted: bool) -> None:
    old, new = run.attempts[-1].before, run.attempts[-1].after
    assert old != new and len(run.crashes) > 1
    found = [messages for _, messages, _ in run.crashes]
    assert all(messages in (old, new) for messages in found)
    assert found[0] == old and found[-1] == new


def loaded_messages(run: Run, count: int) -> None:
    assert run.loads and len(run.loads[0][1]) == count


def classified(run: Run, wanted: bool) -> None:
    for status, message in run.event.get("overflow", ()):
        expected = ("bytes",) if status == 413 else ("too_long", "output_too_large")
        assert classify(status, message).why in expected, message
    for status, message in run.event.get("not_overflow", ()):
        assert classify(status, message).why not in ("too_long", "output_too_large", "bytes"), message


PROBES: Mapping[str, Callable[[Run, Any], None]] = {
    "invariants": invariants_hold,
    "classify": classified,
    **{
        check.__name__: check
        for check in (
            max_summarizer_calls, no_identical_summarizer_requests, summarizer_models, max_summarizer_request_tokens,
            max_summarizer_request_plus_output, summarizer_request_valid, summarizer_request_thinking_ok,
            thinking_identical_or_absent, second_summarizer_input_contains, no_tool_executed, max_extractor_calls,
            history_unchanged, history_unchanged_after_first, history_not_lost, raises, invariants_after_steps, contains, not_contains,
            not_tool_result, keeps_tool_use, min_est_tokens, max_est_tokens, should_compact, used_percent, pre_hook_calls,
            post_hook_calls, max_body_bytes, retry_max_tokens, summary_blocks, max_summary_tokens, cancel_within_s, deterministic,
            idempotent, load_equals_live, load_is_old_or_new, loaded_messages,
        )
    },
}  # fmt: skip


# --- what holds for all


def nothing_lost(run: Run) -> None:
    """Every message can be read back whole and is found by its words, whatever was folded (K4)."""
    log = run.history()
    boundary = run.event.get("boundary_index")
    for number, message in enumerate(run.case.messages, 1):
        if boundary is not None and number == boundary + 1:
            continue  # it is itself a summary
        entry = read_back(log, f"m{number}")
        wanted = decode(message, lambda _: "x", number)
        assert wanted is not None and entry.blocks == wanted.blocks
        text = text_of(message).strip()
        words = next((line.strip() for line in text.splitlines() if line.strip()), "")[:60].replace('"', " ")
        if len(words) >= 12 and words.isprintable():
            assert any(hit.id == entry.id for hit in recall(log, f'"{words.strip()}"', limit=100)), words


def newest_words_survive(run: Run) -> None:
    """What the person said last is in view word for word (C6)."""
    said = [text for message in run.case.messages if message["role"] == "user" for text in _own_texts(message)]
    if said:
        newest = said[-1].encode("utf-8", "replace").decode()
        assert " ".join(newest.split()) in " ".join(run.text.split())


def _own_texts(message: Json) -> list[str]:
    blocks = blocks_of(message)
    if any(block.get("type") == "tool_result" for block in blocks):
        return []
    said = [block["text"] for block in blocks if block.get("type") == "text"]
    return [text for text in said if text.strip() and not text.lstrip().startswith("<") and not SUMMARY.match(text)]


def general(run: Run) -> None:
    """Legal at every moment; nothing lost; a failure changes nothing; a compaction never makes it larger."""
    legal(run.original)
    legal(run.now)
    for sent in run.sent:
        legal(sent.messages)
    for refused, retry in pairwise(run.sent):
        assert not refused.refused or (retry.messages, retry.max_tokens) != (refused.messages, refused.max_tokens), (
            "sent again as it was (R9)"
        )
    for attempt in run.attempts:
        legal(attempt.after)
        if attempt.applied:
            assert attempt.view_after < attempt.view_before
            assert plain_tokens(attempt.after) < plain_tokens(attempt.before)
        elif attempt.error is not None and not any(emit.name == "folded" for emit in attempt.events):
            assert attempt.after == attempt.before
    assert run.now == encoded(run.driver.outgoing().messages), "the same view gives the same bytes (I5)"
    no_identical_summarizer_requests(run, True)
    nothing_lost(run)
    newest_words_survive(run)
