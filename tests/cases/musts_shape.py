"""``must`` of the cases about what a request may look like: pairs, thinking, media, cache marks, parallel results."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fivefold.core.media import image_size
from fivefold.core.rejection import Rejection
from fivefold.core.repair import INTERRUPTED
from fivefold.errors import FivefoldError
from fivefold.store.search import read_back
from tests.build import invariants

from .probes import Check, legal, registry, thinking_of, tool_ids, variant
from .runner import Run
from .world import Json, blocks_of, text_of, texts

MUSTS: dict[tuple[str, int], Check] = {}
must = registry(MUSTS)


def results(messages: Sequence[Json]) -> dict[str, Json]:
    """The tool results of a list by their call."""
    return {b["tool_use_id"]: b for m in messages for b in blocks_of(m) if b.get("type") == "tool_result"}


# --- pairing


@must("pairing-03", 0)
@must("pairing-07", 1)
def _(run: Run) -> None:
    legal(run.now, open_end=False)
    for attempt in run.attempts:
        legal(attempt.after, open_end=False)


@must("pairing-03", 1)
def _(run: Run) -> None:
    gone = {"toolu_gone1", "toolu_gone2", "toolu_gone3"}
    assert gone <= results(run.case.messages).keys() and not gone & results(run.now).keys()
    assert not gone & results(larger(run).now).keys()


@must("pairing-03", 2)
def _(run: Run) -> None:
    both = {"toolu_pc1", "toolu_pc2"}
    assert both <= tool_ids(run.now) and both <= results(run.now).keys()


@must("pairing-03", 3)
def _(run: Run) -> None:
    assert "List them with line numbers." in run.text and "List them with line numbers." in larger(run).text


def larger(run: Run) -> Run:
    """The same where there is something to fold: a long talk stands before it, and the window is one that a model may have."""
    talk: list[Json] = []
    for i in range(12):
        talk += [{"role": "user", "content": f"Part {i}: " + "go through the lines. " * 12}]
        talk += [{"role": "assistant", "content": f"Done with part {i}. " + "All lines are as they should be. " * 12}]
    found = variant(run, "larger", messages=[*talk, *run.case.messages], window=4_096, threshold=0.25)
    assert found.attempts[0].succeeded, found.errors
    legal(found.now, open_end=run.case.allow_pending)
    return found


@must("pairing-04", 0)
def _(run: Run) -> None:
    for attempt in (run.attempts[0], variant(run, "roomier", window=run.event["window"] * 2).attempts[0]):
        last = attempt.after[-1]
        assert last["role"] == "assistant" and blocks_of(last)[-1] == blocks_of(run.case.messages[-1])[-1]
    assert attempt.succeeded, "and in twice the window it was folded in front of it"


@must("pairing-04", 1)
def _(run: Run) -> None:
    for done in (run, variant(run, "roomier", window=run.event["window"] * 2)):
        legal(done.now, open_end=False)
        assert results(done.now)["toolu_confirm"]["content"] == "approved"


@must("pairing-04", 2)
def _(run: Run) -> None:
    roomier = variant(run, "roomier", window=run.event["window"] * 2)
    for done in (run, roomier):
        assert all(INTERRUPTED not in texts(attempt.after) for attempt in done.attempts)
        assert INTERRUPTED not in done.text
        assert all("toolu_confirm" not in json.dumps(message) for message in done.attempts[0].after[:-1])


@must("pairing-05", 0)
def _(run: Run) -> None:
    [attempt] = run.attempts
    assert attempt.after == attempt.before == run.original and "toolu_pe_p" in tool_ids(attempt.after)
    by_hand = variant(run, "by-hand", trigger="manual", window=4_096)
    assert by_hand.now == by_hand.original and by_hand.asks


@must("pairing-05", 1)
def _(run: Run) -> None:
    roomy = variant(run, "roomy", window=8_192)
    assert roomy.asks and any(asked.ask.kind == "fork" for asked in roomy.asks)
    for asked in [*run.asks, *roomy.asks]:
        legal(asked.messages, open_end=False)


@must("pairing-05", 2)
def _(run: Run) -> None:
    assert run.errors and "Internal server error" in str(run.errors[0])
    assert all(isinstance(error, FivefoldError) for error in run.errors)
    assert any("Internal server error" in fields["why"] for fields in run.named("summary_failed"))


@must("pairing-06", 0)
def _(run: Run) -> None:
    roomy = variant(run, "roomy", window=4_096)
    assert roomy.asks
    for asked in [*run.asks, *roomy.asks]:
        assert "srvtoolu_02" not in json.dumps(asked.messages)
        legal(asked.messages, open_end=False)


@must("pairing-06", 1)
def _(run: Run) -> None:
    for messages in (run.now, larger(run).now):
        calls = [b["id"] for m in messages for b in blocks_of(m) if b.get("type") == "server_tool_use"]
        answers = [b["tool_use_id"] for m in messages for b in blocks_of(m) if b.get("type") == "web_search_tool_result"]
        assert calls.count("srvtoolu_01") == answers.count("srvtoolu_01")


@must("pairing-06", 2)
def _(run: Run) -> None:
    [attempt] = run.attempts
    assert attempt.succeeded or attempt.after == attempt.before


@must("pairing-07", 0)
def _(run: Run) -> None:
    more = [{"role": "user", "content": "Go on."}, {"role": "assistant", "content": "All of it is in ./ci now. " * 40}]
    later = variant(run, "later", messages=[*run.case.messages, *more, *more])
    assert run.asks and any("toolu_pg_i" in json.dumps(asked.messages) and asked.ask.kind == "fork" for asked in later.asks)
    for asked in [*run.asks, *later.asks]:
        legal(asked.messages, open_end=False)


@must("pairing-07", 2)
def _(run: Run) -> None:
    assert run.attempts[0].succeeded and "Use ./ci instead" in run.text


# --- thinking


@must("thinking-01", 0)
@must("thinking-01", 1)
def _(run: Run) -> None:
    known = [block for message in run.case.messages for block in thinking_of(message)]
    assert run.sent and known
    for messages in [run.now, *(sent.messages for sent in run.sent), *(sent.messages for sent in cleared(run).sent)]:
        assert all(block in known for message in messages for block in thinking_of(message))


def cleared(run: Run) -> Run:
    """The same with enough old results for the pass to have something to do."""
    more: list[Json] = []
    for i in range(9):
        more += [
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"toolu_old{i}", "name": "Bash", "input": {"command": "ls"}}]}
        ]
        more += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"toolu_old{i}", "content": "a line of it\n" * 60}]}]
    messages = [run.case.messages[0], *more, *run.case.messages[1:]]
    found = variant(run, "cleared", messages=messages, config={"micro": {"min_gain_tokens": 1}})
    assert any(fields["level"] == "micro" for fields in found.named("folded"))
    return found


@must("thinking-01", 2)
def _(run: Run) -> None:
    for done in (run, cleared(run)):
        legal(done.sent[-1].messages, open_end=False)
        assert results(done.sent[-1].messages).keys() == results(done.original).keys()


@must("thinking-02", 0)
def _(run: Run) -> None:
    known = [thinking_of(message) for message in run.original if message["role"] == "assistant"]
    whole = variant(run, "whole", window=200_000)
    assert run.asks and whole.asks
    for asked in [*run.asks, *whole.asks]:
        found = [thinking_of(message) for message in asked.messages if message["role"] == "assistant"]
        assert not any(found) or found[-1] == known[-1] or found[-1] in known
        assert all(not blocks or blocks in known for blocks in found)


@must("thinking-02", 1)
def _(run: Run) -> None:
    sealed = [b["data"] for m in run.case.messages for b in thinking_of(m) if b["type"] == "redacted_thinking"]
    assert sealed and all(data[:40] not in asked.text for data in sealed for asked in run.asks)
    assert all(data[:40] not in run.text for data in sealed)


@must("thinking-02", 2)
def _(run: Run) -> None:
    assert run.attempts[0].succeeded and "Retry policy: add jitter." in run.text


# --- media


def images(messages: Sequence[Json]) -> list[int]:
    """The longer sides of all images."""
    found = []
    for message in messages:
        for block in blocks_of(message):
            parts = block["content"] if block.get("type") == "tool_result" and isinstance(block["content"], list) else [block]
            found += [max(image_size(part["source"]["data"]) or (0,)) for part in parts if part.get("type") == "image"]
    return found


@must("media-01", 0)
def _(run: Run) -> None:
    retry = images(run.sent[-1].messages)
    assert not run.sent[-1].refused and len(retry) > 20 and max(retry) <= 2_000


@must("media-01", 1)
def _(run: Run) -> None:
    before, after = run.case.messages, run.sent[-1].messages
    assert [m["role"] for m in before] == [m["role"] for m in after]
    wide = [id for id, block in results(before).items() if any(side > 2_000 for side in images([{"content": [block]}]))]
    assert wide
    for old, new in zip(before, after, strict=True):
        for was, now in zip(blocks_of(old), blocks_of(new), strict=True):
            if was.get("tool_use_id") in wide:
                assert now["tool_use_id"] == was["tool_use_id"] and images([{"content": [now]}]) == []
                assert "image left out" in text_of({"content": [now]})
            else:
                assert now == was


@must("media-01", 2)
def _(run: Run) -> None:
    assert len(run.sent) <= 2 and not run.sent[-1].refused


@must("media-01", 3)
def _(run: Run) -> None:
    called = variant(run, "called", trigger="manual", force=True, provider=None, summarizer=[{"text": "Pages 0 to 21 looked at."}])
    assert called.asks
    for asked in called.asks:
        assert invariants.check(asked.messages, strict_alternation=True) == []
        assert max(images(asked.messages), default=0) <= 2_000


@must("media-02", 0)
def _(run: Run) -> None:
    first, retry = run.sent
    assert first.refused and retry.messages != first.messages and retry.bytes < first.bytes


@must("media-02", 1)
def _(run: Run) -> None:
    called = variant(run, "called", trigger="manual", force=True, provider=None)
    assert called.asks
    for asked in called.asks:
        assert not isinstance(asked.reply, Rejection)
        assert "JVBERi0" not in json.dumps(asked.messages) and asked.bytes <= 20_000


@must("media-02", 2)
def _(run: Run) -> None:
    assert not run.sent[-1].refused and run.sent[-1].bytes <= 20_000


@must("media-02", 3)
def _(run: Run) -> None:
    called = variant(run, "called", trigger="manual", force=True, provider=None)
    for done in (run, called):
        named = json.dumps(done.now)
        assert all(f"report_{i}.pdf" in named for i in range(3))


# --- cache


@must("cache-03", 0)
def _(run: Run) -> None:
    assert json.dumps(run.projections[0][0]) == json.dumps(run.projections[0][1])
    long = only_clears(run)
    assert json.dumps(long.projections[0][0]) == json.dumps(long.projections[0][1])


def only_clears(run: Run) -> Run:
    """The same in a window in which clearing is all there is to do."""
    found = variant(run, "clears", window=20_000, config={"micro": {"min_gain_tokens": 1}})
    assert found.named("compaction_started") == []
    assert any(fields["path"] == "clear" for fields in found.named("folded"))
    return found


@must("cache-03", 1)
def _(run: Run) -> None:
    for done in (run, only_clears(run)):
        assert json.dumps(done.projections[1][0]) == json.dumps(done.projections[1][1])


@must("cache-03", 2)
def _(run: Run) -> None:
    first, later = (sent.messages for sent in only_clears(run).sent)
    assert "[Old tool result content cleared]" in texts(first)
    assert json.dumps(later[: len(first) - 1]) == json.dumps(first[:-1]), "what was sent stays byte for byte (I5)"
    assert results(first).items() <= results(later).items()


@must("cache-04", 0)
def _(run: Run) -> None:
    for messages in [run.now, run.original, *(asked.messages for asked in run.asks)]:
        marked = [block for message in messages for block in blocks_of(message) if "cache_control" in block]
        assert len(marked) <= 4
        assert all(b["type"] not in ("thinking", "redacted_thinking") for b in marked)
        assert all(b["type"] != "text" or b["text"].strip() for b in marked)


@must("cache-04", 1)
def _(run: Run) -> None:
    sketch = run.case.messages[2]
    assert [block["type"] for block in sketch["content"]] == ["text", "image", "text"]
    last = [*run.case.messages, {"role": "assistant", "content": "Noted too."}, sketch, {"role": "assistant", "content": "Seen."}]
    kept = variant(run, "kept", messages=[*last, {"role": "user", "content": "Go on."}])
    assert kept.attempts[0].succeeded
    assert sketch in kept.now, "text, image, text"
    for message in run.now:
        if any(block.get("type") == "image" for block in blocks_of(message)):
            assert message in run.original


@must("cache-04", 2)
def _(run: Run) -> None:
    for messages in [run.now, *(asked.messages for asked in run.asks)]:
        assert all(b.get("type") != "text" or b["text"].strip() for m in messages for b in blocks_of(m))


# --- sub-agents


@must("subagent-02", 0)
def _(run: Run) -> None:
    ids = tool_ids(run.case.messages)
    assert len(ids) == 8
    [attempt] = run.attempts
    assert attempt.succeeded and run.tokens <= run.event["threshold"] * run.event["window"]
    assert tool_ids(run.now) == ids == results(run.now).keys()
    legal(run.now, open_end=False)
    entering = variant(run, "entering", trigger="auto", force=False, summarizer=[])
    assert tool_ids(entering.sent[-1].messages) == ids, "and by itself, before the request, it is no other"
    assert entering.tokens <= run.event["threshold"] * run.event["window"]


@must("subagent-02", 1)
def _(run: Run) -> None:
    assert all(f"RESULT-{i}" in run.text for i in range(8))


@must("subagent-02", 2)
def _(run: Run) -> None:
    shown = results(run.now)
    for id, block in results(run.case.messages).items():
        assert "recall" in text_of({"content": [shown[id]]})
        assert text_of({"content": [block]}) in text_of(whole(run))


def whole(run: Run) -> Json:
    """The entry with the eight results, read back."""
    entry = read_back(run.driver.log, "m3")
    assert "m3" in run.text
    return {"content": [{"type": "tool_result", "content": block.content} for block in entry.blocks]}


@must("subagent-03", 0)
def _(run: Run) -> None:
    lines = run.text.splitlines()
    for id, task in (("ag_7f31", "audit A"), ("ag_90bc", "audit B")):
        assert any(id in line and task in line and "running" in line for line in lines), lines
    structural = variant(run, "structural", summarizer=[])
    assert structural.attempts[0].succeeded
    for id, task in (("ag_7f31", "audit A"), ("ag_90bc", "audit B")):
        assert any(id in line and task in line and "running" in line for line in structural.text.splitlines())


@must("subagent-03", 1)
def _(run: Run) -> None:
    assert not any("ag_1111" in line and "running" in line for line in run.text.splitlines())
    structural = variant(run, "structural", summarizer=[])
    assert not any("ag_1111" in line and "running" in line for line in structural.text.splitlines())


@must("subagent-03", 2)
def _(run: Run) -> None:
    for done in (run, variant(run, "structural", summarizer=[])):
        assert done.attempts[0].succeeded and "ag_7f31" in done.text and "ag_90bc" in done.text
