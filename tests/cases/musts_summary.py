"""``must`` of the cases about what a summary says, and what stands beside it."""

from __future__ import annotations

from fivefold.core.rejection import Rejection

from .probes import Check, body_of, registry, tool_ids, variant
from .runner import Run, entries_of
from .world import plain, text_of

MUSTS: dict[tuple[str, int], Check] = {}
must = registry(MUSTS)
RULES = (
    "Never add co-author trailers to commits.",
    "Work item text must be Markdown.",
    "Never run database reset commands without a backup and written approval.",
    "Skills live in <project>/.claude/skills/.",
)


@must("summary-01", 0)
def _(run: Run) -> None:
    assert run.attempts[0].succeeded
    assert all(rule in run.text for rule in RULES)


@must("summary-01", 1)
def _(run: Run) -> None:
    again = variant(run, "again", steps=[{"append_rounds": 8, "compact": True, "repeat": 3}])
    assert sum(attempt.applied for attempt in again.attempts) == 4
    for done in (run, again):
        assert [done.text.count(rule) for rule in RULES] == [1, 1, 1, 1]


@must("summary-01", 2)
def _(run: Run) -> None:
    [name] = run.event["config"]["instruction_files"]
    (run.path / name).write_text("Project rules:\n- Always sign commits.\n", encoding="utf-8")
    driver = run.driver
    for i in range(40):
        question = {"role": "user", "content": f"Go on with part {i}: " + "look at each line of it. " * 8}
        answer = {"role": "assistant", "content": f"Part {i} is done. " + "All of its lines were looked at. " * 8}
        said, answered = entries_of([question, answer], at=run.world.now, prefix=f"part{i}-")
        driver.say(said)
        driver.replied(answered)
    driver.compact()
    assert "Always sign commits." in run.text and RULES[0] not in run.text


@must("summary-02", 0)
def _(run: Run) -> None:
    structural = variant(run, "structural", summarizer=[])
    for done in (run, structural):
        assert done.attempts[0].succeeded
        lines = done.text.splitlines()
        assert any("Task 7" in line and "in_progress" in line for line in lines)
        for i in range(8, 12):
            assert any(f"Task {i}" in line and "pending" in line for line in lines)


@must("summary-02", 1)
def _(run: Run) -> None:
    for done in (run, variant(run, "structural", summarizer=[])):
        for line in done.text.splitlines():
            if "in_progress" in line or "pending" in line or "[open]" in line:
                assert not any(f"Task {i}" in line.split() or f"Task {i}." in line for i in range(7)), line


@must("summary-04", 0)
def _(run: Run) -> None:
    assert run.attempts[0].succeeded
    text = run.text
    assert "Approved. Build it." in text and "tests/test_limiter.py" in text
    assert "steps 1-2 done" in text or "Steps 1 and 2 are written" in text
    first = run.asks[0].reply
    assert not isinstance(first, Rejection) and first.text not in run.summaries()[0], "the plan alone is no summary"


@must("summary-04", 1)
def _(run: Run) -> None:
    assert any("Approved. Build it." in line for line in body_of(run.summaries()[0]).splitlines() if line.startswith("["))


@must("summary-04", 2)
def _(run: Run) -> None:
    for done in (run, variant(run, "large", window=200_000)):
        for asked in done.asks:
            said = asked.text.lower()
            assert "completed work" in said and "decided plan" in said and "next concrete action" in said


@must("summary-07", 0)
def _(run: Run) -> None:
    [summary] = run.summaries()
    quoted = [line.split("] ", 1)[1] for line in body_of(summary).splitlines() if line.startswith("[") and "] " in line]
    said = [text_of(message) for message in run.case.messages if message["role"] == "user"]
    assert quoted and all(any(line in text for text in said) for line in quoted)
    listed = [line.removeprefix("- ") for line in body_of(summary).splitlines() if line.startswith("- ")]
    assert all(any(line in text for text in said) for line in listed)


@must("summary-07", 1)
def _(run: Run) -> None:
    assert "do not stop until nothing is left" not in run.text
    assert any("do not stop until nothing is left" in fields["text"] for fields in run.named("summary_note")), "and it is told"


@must("summary-08", 0)
def _(run: Run) -> None:
    for number, answer in enumerate(run.event["summarizer"]):
        alone = variant(run, f"alone-{number}", summarizer=[answer])
        assert alone.asks
        bad = answer["text"].strip()
        assert not bad or bad not in alone.text
        assert all(fold.fold.extra.get("method") != "model" for fold in alone.driver.log.folds)


@must("summary-08", 1)
def _(run: Run) -> None:
    for number, answer in enumerate(run.event["summarizer"]):
        alone = variant(run, f"kept-{number}", summarizer=[answer])
        [attempt] = alone.attempts
        if attempt.applied:
            [placed] = alone.driver.log.folds
            assert placed.fold.extra["method"] == "structural" and placed.fold.extra["tried"]
        else:
            assert attempt.after == attempt.before
        asked_for = variant(run, f"asked-{number}", trigger="manual", summarizer=[answer])
        assert asked_for.now == asked_for.original


@must("summary-08", 2)
def _(run: Run) -> None:
    for number, answer in enumerate(run.event["summarizer"]):
        alone = variant(run, f"told-{number}", summarizer=[answer])
        assert [fields["method"] for fields in alone.named("summary_failed")] == ["model"]
        asked_for = variant(run, f"error-{number}", trigger="manual", summarizer=[answer])
        assert asked_for.errors and not asked_for.attempts[0].applied


@must("summary-09", 0)
def _(run: Run) -> None:
    assert sum(attempt.applied for attempt in run.attempts) == 5
    for attempt in run.attempts:
        [summary] = [text_of(message) for message in attempt.after if "<conversation-summary>" in text_of(message)]
        assert plain(body_of(summary)) <= 660


@must("summary-09", 1)
def _(run: Run) -> None:
    for attempt in run.attempts:
        shown = "\n".join(map(text_of, attempt.after))
        assert shown.count("<conversation-summary>") == 1 and "[summary 4]" not in shown
    assert len(run.summaries()) == 1


@must("summary-09", 2)
def _(run: Run) -> None:
    long = [asked.reply.text for asked in run.asks if not isinstance(asked.reply, Rejection) and plain(asked.reply.text) > 660]
    assert long and all(text not in summary for text in long for summary in run.summaries())
    assert any("shortened from about" in fields["text"] for fields in run.named("summary_note"))


@must("summary-10", 0)
def _(run: Run) -> None:
    assert run.world.executed_tools == 0
    assert "pytest" not in run.text and all(tool_ids(asked.messages) <= tool_ids(run.original) for asked in run.asks)


@must("summary-10", 1)
def _(run: Run) -> None:
    first, second = run.asks
    assert getattr(first.reply, "called_tool", False)
    assert second.ask.tools == "none" and "It was not carried out" in second.text
    large = variant(run, "large", window=200_000)
    fork, direct = large.asks
    assert (fork.ask.kind, fork.ask.tools, direct.ask.kind, direct.ask.tools) == ("fork", "inherit", "direct", "none")


@must("summary-10", 2)
def _(run: Run) -> None:
    assert run.attempts[0].succeeded and "Crash not yet reproduced; nine modules read." in run.summaries()[0]
    assert any("tool call" in fields["text"] for fields in run.named("summary_note"))
