"""The engine's table, its end, its order and its promises, one example each (spec sections 3–11, 13)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fivefold.core import engine
from fivefold.core.actions import (
    NEEDS_ANSWER,
    Append,
    CountTokens,
    Done,
    Emit,
    GiveUp,
    ReadFiles,
    ReadMemory,
    RunHook,
    Send,
    Summarize,
)
from fivefold.core.economics import Model
from fivefold.core.entries import CLEARED, Entry, Fold, Head, Target, Unfold, Usage
from fivefold.core.events import (
    Cancelled,
    CompactAsked,
    Counted,
    Event,
    FilesRead,
    HookAnswered,
    Marked,
    MemoryRead,
    MemoryUpdated,
    Pinned,
    Replied,
    RequestDue,
    RequestRejected,
    RestoredFile,
    Said,
    Staged,
    Summarized,
    SummaryFailed,
    Undone,
    Unpinned,
)
from fivefold.core.log import Log
from fivefold.core.messages import Compaction, Text, Thinking, ToolResult, result_text
from fivefold.core.policy import Policy
from fivefold.core.rejection import Rejection
from fivefold.core.repair import outgoing
from fivefold.core.state import Phase, Setup, State
from fivefold.core.view import view_of
from fivefold.core.window import window_of
from fivefold.drive import Driver
from fivefold.errors import FoldError, IllegalEventError
from tests.build import assistant, call, entry, result, user

NOW = 1_000.0
TOO_LONG = Rejection(why="too_long", message="prompt is too long")
LONG = "a=1;b=2;c=3; " * 100
"""About 900 tokens."""


def setup_of(
    *, window: int = 8_000, thinking: Any = "none", compaction: tuple[str, ...] = (), policy: dict[str, Any] | None = None, **more: Any
) -> Setup:
    model = Model(id="m-1", provider="anthropic", window=window, max_output=1_000, thinking=thinking, compaction=compaction)
    made = Policy.of(policy or {})
    return Setup(policy=made, model=model, window=window_of(window, 1_000, made.window, auto=made.auto.enabled), overhead=0, **more)


def rounds(count: int, *, text: str = LONG, tool: str = "Read", thinks: bool = False) -> list[Entry]:
    """A person's message, then rounds of a call and its result."""
    said = [user("u1", "Look into all of it.")]
    for n in range(1, count + 1):
        thought = [Thinking(f"thought {n}", f"sig{n}")] if thinks else []
        said.append(
            assistant(f"a{n}", *thought, f"I read part {n}.", call(f"t{n}", tool, file_path=f"part{n}.py"), api_id=f"m{n}", time=NOW)
        )
        said.append(user(f"r{n}", result(f"t{n}", f"part {n}: {text}"), time=NOW))
    return said


def state_of(entries: list[Entry], setup: Setup | None = None) -> State:
    return engine.begin(Log(Head(id="c"), entries), setup or setup_of())


def step(state: State, event: Event) -> tuple[State, list[Any]]:
    new, actions = engine.step(state, event)
    return new, list(actions)


def due(state: State, **more: Any) -> tuple[State, list[Any]]:
    return step(state, RequestDue(now=NOW, **more))


def run(state: State, event: Event, **answers: Any) -> tuple[State, list[Any]]:
    """An event and all that it leads to, each action answered: by ``answers`` under the action's name, or in the plainest way."""
    state, made = step(state, event)
    every = list(made)
    while state.phase is Phase.WAITING:
        action = made[-1]
        given = answers.get(type(action).__name__.lower())
        state, made = step(state, given(action) if callable(given) else given or plain(action))
        every += made
    return state, every


def plain(action: Any) -> Event:
    match action:
        case Summarize(first=first):
            return Summarized(text="what was done", method=action.method, **({} if first else {"first": "u1", "last": "r1"}))
        case RunHook(name=name):
            return HookAnswered(name=name)
        case ReadMemory():
            return MemoryRead(text="what is known")
        case ReadFiles():
            return FilesRead()
        case _:
            return Counted(tokens=None)


def until(last: str) -> Any:
    """A structural summary of everything from the first message to an entry."""
    return lambda action: Summarized(text="what was done", method=action.method, first="u1", last=last)


def of(actions: list[Any], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def texts(state: State) -> list[str]:
    """All text on show, in order."""
    found = []
    for item in state.view.shown():
        for block in item.entry.blocks:
            found += [block.text] if isinstance(block, Text) else [result_text(block)] if isinstance(block, ToolResult) else []
    return found


def ids(state: State) -> list[str]:
    return [item.entry.id for item in state.view.shown() if item.entry.kind not in ("note", "boundary")]


def thinking_in(state: State) -> list[str]:
    return [block.signature for item in state.view.shown() for block in item.entry.blocks if isinstance(block, Thinking)]


# --- the table

READY = "ready"
SENT = "sent"
HOOK, MEMORY, FILES, SUMMARY, COUNT = "hook_answered", "memory_read", "files_read", "summarized", "counted"
ALWAYS = {Said, Staged, MemoryUpdated, Marked, Pinned, Unpinned, Cancelled}
TABLE: dict[str, set[type]] = {
    READY: ALWAYS | {RequestDue, Replied, CompactAsked, Undone},
    SENT: ALWAYS | {Replied, RequestRejected},
    HOOK: ALWAYS | {HookAnswered},
    MEMORY: ALWAYS | {MemoryRead},
    FILES: ALWAYS | {FilesRead},
    SUMMARY: ALWAYS | {Summarized, SummaryFailed},
    COUNT: ALWAYS | {Counted},
}
"""What may happen while what is going on, written out by hand."""
EVENTS: tuple[Event, ...] = (
    Said(entries=(user("new", "And the tests?"),)),
    RequestDue(now=NOW),
    Replied(entries=(assistant("b1", "Done."),), now=NOW),
    RequestRejected(rejection=TOO_LONG, now=NOW),
    CompactAsked(now=NOW),
    HookAnswered(name="pre_compact"),
    MemoryRead(text="what is known"),
    FilesRead(),
    Summarized(text="what was done", method="structural", first="u1", last="r1"),
    SummaryFailed(why="none came"),
    Staged(first="a1", last="r1", text="what was done"),
    MemoryUpdated(covered="r1"),
    Marked(ids=("a1",)),
    Pinned(name="port", text="the port is 4711"),
    Unpinned(name="kept"),
    Undone(folds=("f",), now=NOW),
    Counted(tokens=5_000),
    Cancelled(now=NOW),
)


def in_phase(phase: str) -> State:
    """A conversation in which this is going on."""
    folded = Fold(id="f", level="snip", changes=())
    log = Log(Head(id="c"), [*rounds(4 if phase == COUNT else 8), folded])
    features: dict[str, dict[str, Any]] = {
        HOOK: {"hooks": frozenset({"pre_compact"})},
        MEMORY: {"memory": True},
        FILES: {"restores": True},
        COUNT: {"counts": True},
    }
    state, _ = step(engine.begin(log, setup_of(**features.get(phase, {}))), Pinned(name="kept", text="ship on Friday"))
    if phase == READY:
        return state
    if phase == SENT:
        return due(state, source="compact")[0]
    state, _ = due(state)
    if phase == FILES:
        state, _ = step(state, Summarized(text="what was done", method="structural", first="u1", last="r6"))
    return state


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("phase", TABLE)
def test_the_table_says_what_may_happen_when_and_the_rest_changes_nothing(phase: str, event: Event) -> None:
    """Every phase, and everything that can be waited for, against every event."""
    state = in_phase(phase)
    assert (state.waits_for if state.phase is Phase.WAITING else state.phase.value) == phase
    before = list(state.log.records())
    if type(event) in TABLE[phase]:
        first, second = engine.step(state, event), engine.step(state, event)
        assert first.actions == second.actions and list(first.state.log.records()) == list(second.state.log.records())
        assert first.state.tracking == second.state.tracking and first.state.work == second.state.work
        assert first.state.view == second.state.view == view_of(first.state.log)
    else:
        with pytest.raises(IllegalEventError, match=type(event).__name__):
            engine.step(state, event)
    assert list(state.log.records()) == before, "a step makes a new state; the old one is what it was"
    assert state.view == view_of(state.log)


def test_the_table_in_the_code_holds_every_event_and_is_the_one_above() -> None:
    every = {type(event) for event in EVENTS}
    assert set().union(*engine.LEGAL.values()) == every
    assert engine.LEGAL[Phase.READY] == TABLE[READY] and engine.LEGAL[Phase.SENT] == TABLE[SENT]
    assert engine.LEGAL[Phase.WAITING] == set().union(*(TABLE[name] for name in (HOOK, MEMORY, FILES, SUMMARY, COUNT)))


@pytest.mark.parametrize("phase", TABLE)
def test_q4_no_phase_is_dead_a_person_can_speak_and_a_cancel_leads_back(phase: str) -> None:
    state, _ = step(in_phase(phase), Said(entries=(user("new", "And the tests?"),)))
    assert "new" in ids(state)
    state, actions = step(state, Cancelled(now=NOW))
    assert state.phase is Phase.READY and state.work is None and not of(actions, GiveUp)
    state, actions = run(state, RequestDue(now=NOW, source="compact"))
    assert of(actions, Send), "the next request goes out"


@pytest.mark.parametrize("phase", (HOOK, MEMORY, FILES, SUMMARY))
def test_a6_q4_a_cancelled_compaction_leaves_nothing_and_is_no_failure(phase: str) -> None:
    state = in_phase(phase)
    after, actions = step(state, Cancelled(now=NOW))
    assert ids(after) == ids(state) and after.log.folds == state.log.folds
    assert after.tracking.failures == 0 and after.tracking.failed_on == "" and not after.tracking.compacted
    assert [action.name for action in of(actions, Emit)] == ["compaction_cancelled"]


def test_p2_q4_a_cancel_while_post_compact_hooks_run_leaves_the_compaction_that_was_made() -> None:
    """It is appended by then: who asked for it is told so, and not that it was cancelled."""
    state = state_of(rounds(8), setup_of(hooks=frozenset({"post_compact"})))
    state, _ = step(state, CompactAsked(now=NOW))
    state, actions = step(state, Summarized(text="what was done", method="structural", first="u1", last="r6"))
    assert [action.name for action in of(actions, RunHook)] == ["post_compact"]
    state, actions = step(state, Cancelled(now=NOW))
    assert [done.success for done in of(actions, Done)] == [True] and not of(actions, Emit)
    assert len(state.log.folds) == 1 and state.phase is Phase.READY


# --- one thing at a time, and an end

METHODS: dict[str, dict[str, Any]] = {
    "structural": {},
    "model": {"policy": {"summary": {"method": "model"}}},
    "native": {"policy": {"summary": {"method": "native"}}},
    "memory, then a model": {"policy": {"summary": {"method": "model"}}, "memory": True},
}
ANSWERS: dict[str, Any] = {
    "none comes": lambda action: SummaryFailed(why="none came", calls=1),
    "it is empty": lambda action: Summarized(text=" \n", method=action.method, first=action.first or "u1", last=action.last or "r1"),
    "it is too long": lambda action: Summarized(
        text=LONG * 20, method=action.method, first=action.first or "u1", last=action.last or "r6", calls=1
    ),
    "it cuts a pair": lambda action: Summarized(text="done", method=action.method, first="u1", last="a4"),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("asked", (False, True), ids=("unasked", "asked for"))
def test_a8_a6_the_ladder_ends_and_a_failure_leaves_everything_as_it_was(method: str, answer: str, asked: bool) -> None:
    """Whatever is answered: one action at a time, each hook and file asked for once, at most two summaries of a model, no fold."""
    hooks = frozenset({"pre_compact", "session_start", "post_compact"})
    state = state_of(rounds(8), setup_of(hooks=hooks, restores=True, **METHODS[method]))
    before, asks, actions = ids(state), list[Any](), list[Any]()
    state, made = step(state, CompactAsked(now=NOW) if asked else RequestDue(now=NOW))
    while True:
        actions += made
        waiting = of(made, NEEDS_ANSWER)  # type: ignore[arg-type]
        assert len(waiting) == (state.phase is Phase.WAITING), "one action waits for its answer, or none"
        if not waiting:
            break
        assert made[-1] is waiting[0], "and it is the last"
        asks.append(waiting[0])
        assert len(asks) < 20, "the ladder has no end"
        state, made = step(state, ANSWERS[answer](waiting[0]) if isinstance(waiting[0], Summarize) else plain(waiting[0]))
    assert ids(state) == before and not state.log.folds
    assert len(of(asks, ReadFiles)) <= 1 and len(of(asks, ReadMemory)) <= 1
    assert (
        [hook.name for hook in of(asks, RunHook)].count("pre_compact")
        == 1
        >= len([h for h in of(asks, RunHook) if h.name == "session_start"])
    )
    assert len([one for one in of(asks, Summarize) if one.method in ("model", "native")]) <= 2
    assert len(of(actions, Done)) == asked and len(of(actions, Send)) == (not asked)
    assert state.tracking.failures == (not asked) and state.tracking.failed_on


def test_each_request_due_ends_in_one_send_or_one_give_up() -> None:
    setup = setup_of(policy={"auto": {"max_failures": 1}})
    state = state_of(rounds(14), setup)
    state, actions = run(state, RequestDue(now=NOW, reactive=False), summarize=ANSWERS["none comes"])
    assert [type(action) for action in actions if isinstance(action, Send | GiveUp)] == [GiveUp]
    state, actions = run(state, RequestDue(now=NOW))
    assert [type(action) for action in actions if isinstance(action, Send | GiveUp)] == [Send]


def test_x8_a_compaction_that_the_agent_asked_for_is_done_once_with_the_next_request() -> None:
    state, actions = step(state_of(rounds(6)), CompactAsked(now=NOW, source="agent"))
    assert actions == []
    state, actions = run(state, RequestDue(now=NOW), summarize=until("r4"))
    assert [done.success for done in of(actions, Done)] == [True] and len(of(actions, Send)) == 1
    state, actions = run(step(state, Cancelled(now=NOW))[0], RequestDue(now=NOW))
    assert not of(actions, Done), "asked for once, made once"


# --- what a restart has to know


def again(state: State, setup: Setup) -> State:
    """The same conversation, read back from its lines."""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Entry | Fold | Unfold)
    return engine.begin(Log(state.log.head, (decoder.decode(msgspec.json.encode(record)) for record in state.log.records())), setup)


def test_k2_a_log_that_is_read_back_equals_the_one_that_was_written() -> None:
    """The engine's own note held tuples, which come back from a file as lists: the two logs were not equal."""
    setup = setup_of()
    state, _ = step(state_of(rounds(2), setup), Pinned(name="port", text="the port is 4711"))
    read = again(state, setup)
    assert read.log == state.log and read.view == state.view
    assert read.tracking.pins == state.tracking.pins


def test_k2_c1_attachments_that_wait_for_a_call_survive_a_restart() -> None:
    setup = setup_of(restores=True)
    state = state_of([*rounds(6), assistant("a7", "One more.", call("t7"), api_id="m7")], setup)
    state, _ = run(state, CompactAsked(now=NOW), summarize=until("r5"), readfiles=FilesRead(attachments=("the plan: ship it",)))
    assert "the plan: ship it" not in texts(state), "a call is open"
    read, _ = step(again(state, setup), Said(entries=(user("r7", result("t7")),)))
    read, _ = due(read)
    assert "the plan: ship it" in texts(read)


def test_r9_t5_nothing_of_a_request_that_ended_with_the_process_holds_afterwards() -> None:
    """A note made in the middle of a recovery said that it was still going on: the first overflow after a restart was not recovered."""
    setup = setup_of()
    state, _ = due(state_of(rounds(3), setup))
    state, _ = run(state, RequestRejected(rejection=TOO_LONG, now=NOW), summarize=until("r2"))
    assert state.tracking.reacted
    state, _ = step(state, Replied(entries=(assistant("b1", "Done.", time=NOW + 50),), now=NOW + 50))
    read = again(state, setup).tracking
    assert (read.recoveries, read.reacted, read.correction, read.last_response) == (0, False, 1.0, NOW + 50)


# --- promises, each of which was once broken


def test_m2_fewer_results_than_are_kept_are_all_kept() -> None:
    """Of three results with five to be kept the oldest was cleared: a negative number of them counted from the end."""
    state = state_of([*rounds(3), user("u2", "Go on.")], setup_of(policy={"micro": {"time_clear": True, "min_gain_tokens": 0}}))
    state, _ = step(state, RequestDue(now=NOW + 7_200))
    assert CLEARED not in texts(state) and not state.log.folds


def test_m2_results_that_the_model_has_not_seen_yet_are_not_cleared() -> None:
    policy = {"micro": {"time_clear": True, "keep_results": 1, "min_gain_tokens": 0}}
    calls = assistant("a1", *(call(f"t{n}") for n in range(4)), api_id="m1", time=NOW)
    state = state_of([user("u1", "Run all."), calls, user("r1", *(result(f"t{n}", LONG[:200]) for n in range(4)))], setup_of(policy=policy))
    state, _ = step(state, RequestDue(now=NOW + 7_200))
    assert CLEARED not in texts(state)
    state, _ = step(state, Replied(entries=(assistant("a2", "Good.", time=NOW + 7_300),), now=NOW + 7_300))
    state, _ = step(state, RequestDue(now=NOW + 20_000))
    assert texts(state).count(CLEARED) == 3


@pytest.mark.parametrize("last", ("a3", "a5"), ids=("between a call and its result", "behind a call that is open"))
def test_i1_i9_a_summary_that_parts_a_call_from_its_result_is_not_applied(last: str) -> None:
    said = [*rounds(4), assistant("a5", "Now this.", call("t5"), api_id="m5")]
    state, actions = run(state_of(said), CompactAsked(now=NOW), summarize=until(last))
    assert [done.success for done in of(actions, Done)] == [False] and ids(state) == [one.id for one in said]
    state, _ = step(state, Said(entries=(user("r5", result("t5", "late but here")),)))
    sent = outgoing(list(state.view.sent()))
    assert any(isinstance(block, ToolResult) and result_text(block) == "late but here" for block in sent.messages[-1].blocks)


def test_i2_a_summary_that_ends_inside_a_response_is_not_applied() -> None:
    said = [*rounds(4), user("u2", "And?"), assistant("a5", "First half.", api_id="m5"), assistant("a6", "Second half.", api_id="m5")]
    state, actions = run(state_of(said), CompactAsked(now=NOW), summarize=until("a5"))
    assert [done.success for done in of(actions, Done)] == [False] and ids(state) == [one.id for one in said]


def test_i9_a_late_result_that_comes_while_the_summary_is_written_is_not_parted_from_its_call() -> None:
    said = [
        *rounds(2),
        assistant("a3", "In the background.", call("t3"), api_id="m3"),
        user("u2", "Meanwhile?"),
        assistant("a4", "Yes.", api_id="m4"),
    ]
    state, _ = step(state_of(said, setup_of(policy={"summary": {"method": "model"}})), CompactAsked(now=NOW))
    state, _ = step(state, Said(entries=(user("r3", result("t3", "it has ended")),)))
    state, _ = step(state, Summarized(text="what was done", method="model"))
    assert not any(
        (shown_call in ids(state)) != (shown_result in ids(state))
        for shown_call, shown_result in (("a1", "r1"), ("a2", "r2"), ("a3", "r3"))
    )


def test_l3_an_empty_summary_is_a_failure_whatever_else_would_be_shown() -> None:
    """With bound thinking the open loop was taken in behind an empty summary, and everything before it was lost."""
    state = state_of(rounds(8, thinks=True), setup_of(thinking="bound"))
    empty = Summarized(text="", method="structural", first="u1", last="r6")
    state, actions = run(state, CompactAsked(now=NOW), summarize=lambda action: empty)
    assert [done.success for done in of(actions, Done)] == [False] and not state.log.folds


def test_l14_what_an_earlier_fold_put_in_front_goes_with_the_new_one() -> None:
    """A summary that begins behind the place of the last one left the old one standing beside it."""
    said = [entry("c1", "attachment", "the project's notes"), *rounds(7)]
    state = state_of(said)
    state, _ = run(state, CompactAsked(now=NOW), summarize=lambda action: Summarized(text="first", method="x", first="c1", last="r2"))
    state, _ = run(state, CompactAsked(now=NOW), summarize=lambda action: Summarized(text="second", method="x", first="u1", last="r5"))
    assert [text for text in texts(state) if text in ("first", "second")] == ["second"]


def test_x2_c6_a_partial_compaction_from_the_start_keeps_the_system_prompt() -> None:
    state = state_of([entry("s1", "system", "You are careful."), *rounds(6)])
    state, actions = run(state, CompactAsked(now=NOW, level="partial", pivot="s1"))
    assert [done.success for done in of(actions, Done)] == [True]
    assert [block.text for block in outgoing(list(state.view.sent())).system if isinstance(block, Text)] == ["You are careful."]


def compacted_by_provider(state: State) -> State:
    state, _ = due(state)
    response = assistant("b1", Compaction({"type": "compaction", "content": "what the provider keeps"}), "Going on.", api_id="m9")
    return step(state, Replied(entries=(response,), now=NOW))[0]


def test_e7_c6_the_providers_own_compaction_keeps_the_system_prompt() -> None:
    state = compacted_by_provider(state_of([entry("s1", "system", "You are careful."), *rounds(2)], setup_of(compaction=("threshold",))))
    assert ids(state) == ["s1", "b1"]
    assert [block.text for block in outgoing(list(state.view.sent())).system if isinstance(block, Text)] == ["You are careful."]


PORT = "the port is 4711, not 4712"


def test_x7_what_is_pinned_survives_the_providers_own_compaction() -> None:
    state, _ = step(state_of([*rounds(2), user("u2", PORT)]), Pinned(name="u2", text=PORT))
    assert PORT in texts(compacted_by_provider(state))


def test_x7_what_is_pinned_while_the_summary_is_written_survives_it() -> None:
    said = rounds(6)
    said.insert(1, user("u2", PORT))
    state, _ = step(state_of(said), CompactAsked(now=NOW))
    state, _ = step(state, Pinned(name="u2", text=PORT))
    state, _ = step(state, Summarized(text="what was done", method="structural", first="u1", last="r5"))
    assert state.log.folds and any(PORT in text for text in texts(state))


def test_x7_a_native_block_does_not_hold_what_is_pinned_so_it_is_put_back() -> None:
    said = rounds(6)
    said.insert(1, user("u2", PORT))
    state, _ = step(state_of(said, setup_of(policy={"summary": {"method": "native"}})), Pinned(name="u2", text=PORT))
    block = {"type": "compaction", "content": "sealed"}
    state, _ = run(state, CompactAsked(now=NOW), summarize=lambda action: Summarized(text="", method="native", block=block))
    assert state.log.folds and any(PORT in text for text in texts(state))


def test_x7_what_a_summary_would_shrink_stays_whole_where_it_is_pinned() -> None:
    said = rounds(6)
    said[-1] = user("r6", result("t6", PORT))
    state, _ = step(state_of(said), Pinned(name="r6", text=PORT))
    made = Summarized(text="what was done", method="structural", first="u1", last="r5", middle=((Target("r6", 0), "picked lines"),))
    state, _ = run(state, CompactAsked(now=NOW), summarize=lambda action: made)
    assert state.log.folds and PORT in texts(state)


def test_x7_a_pinned_text_survives_the_snip_of_the_entry_that_holds_it() -> None:
    said = rounds(3)
    said[2] = user("r1", result("t1", f"{PORT}\n{LONG}"))
    state, _ = step(state_of(said), Pinned(name="text 1", text=PORT))
    state, _ = step(state, Marked(ids=("a1",)))
    state, _ = due(state)
    assert "r1" not in ids(state) and PORT in texts(state)


def test_x7_x4_what_was_pinned_after_a_stretch_was_summarised_survives_its_commit() -> None:
    setup = setup_of(policy={"collapse": {"enabled": True}}, stages=True)
    said = [
        *rounds(3),
        assistant("b1", "Done."),
        user("u2", PORT),
        assistant("b2", "Noted."),
        user("u3", "Go on."),
        assistant("b3", "On it."),
    ]
    state, _ = step(state_of(said, setup), Staged(first="a1", last="b2", text="parts 1 to 3 were read"))
    state, _ = step(state, Pinned(name="u2", text=PORT))
    state, _ = step(state, CompactAsked(now=NOW, level="collapse"))
    assert "parts 1 to 3 were read" in texts(state) and any(PORT in text for text in texts(state))


@pytest.mark.parametrize(("summary", "room"), ((20, True), (1_050, False)))
def test_a11_p2_what_a_post_compact_hook_says_is_put_back_as_far_as_the_view_stays_a_success(summary: int, room: bool) -> None:
    """Its text came on top of a view that had just fitted, and the request that was to recover was larger than the one refused."""
    said = [
        one for n in (1, 2, 3) for one in (user(f"u{n}", f"Part {n}? {LONG}"), assistant(f"a{n}", f"Read.{LONG[:400]}", api_id=f"m{n}"))
    ]
    state, _ = due(state_of([*said, user("u4", "And?")], setup_of(window=10_000, hooks=frozenset({"post_compact"}))))
    refused = Rejection(why="too_long", message="too long", actual=state.used, limit=state.used - 300)
    state, actions = run(
        state,
        RequestRejected(rejection=refused, now=NOW),
        summarize=lambda action: Summarized(text=LONG[:summary], method="structural", first="u1", last="a1"),
        runhook=lambda action: HookAnswered(name=action.name, context=("run the tests first" + LONG * 3,)),
    )
    assert of(actions, Send) and len(state.log.folds) == 1 and refused.actual is not None
    assert state.used <= 0.9 * refused.actual
    assert any("run the tests first" in text for text in texts(state)) is room


def test_x4_x5_a_summary_made_beforehand_does_not_outlive_an_undo() -> None:
    """It did not hold what the undo brought back into its stretch."""
    state = state_of([*rounds(3), user("u2", "And?")], setup_of(policy={"collapse": {"enabled": True}}))
    state, _ = step(state, Marked(ids=("a2",)))
    state, _ = due(state)
    state, _ = step(step(state, Cancelled(now=NOW))[0], Staged(first="a1", last="r3", text="parts 1 and 3 were read"))
    state, _ = step(state, Undone(folds=(state.log.folds[-1].fold.id,), now=NOW))
    assert state.tracking.staged == () and "a2" in ids(state)


def test_x5_an_undo_takes_back_what_the_fold_had_put_behind_the_end() -> None:
    setup = setup_of(restores=True, hooks=frozenset({"post_compact"}))
    state = state_of([*rounds(6), assistant("a7", "One more.", call("t7"), api_id="m7")], setup)
    before = ids(state)
    state, _ = run(
        state,
        CompactAsked(now=NOW),
        summarize=until("r5"),
        readfiles=FilesRead(files=(RestoredFile("part1.py", "x = 1"),)),
        runhook=lambda action: HookAnswered(name=action.name, context=("run the tests first",)),
    )
    state, _ = step(state, Said(entries=(user("r7", result("t7")),)))
    state, _ = step(due(state)[0], Cancelled(now=NOW))
    assert any("x = 1" in text for text in texts(state)) and "run the tests first" in texts(state)
    state, _ = step(state, Undone(folds=(state.log.folds[-1].fold.id,), now=NOW))
    assert ids(state) == [*before, "r7"]


# --- thinking that is bound to what stood before it (I7)


def bound(entries: list[Entry], **more: Any) -> State:
    return state_of(entries, setup_of(thinking="bound", **more))


def test_i7_x5_an_undo_hides_what_was_thought_under_the_fold_and_brings_back_what_was_thought_before() -> None:
    said = [*rounds(6, thinks=True), user("u2", "And?"), assistant("b1", Thinking("so", "sig7"), "Done.", api_id="m7")]
    state = bound([*said, user("u3", "Next.")])
    state, _ = run(state, CompactAsked(now=NOW), summarize=until("r5"))
    state, _ = step(due(state)[0], Replied(entries=(assistant("b2", Thinking("hm", "sig8"), "Next.", api_id="m8"),), now=NOW))
    assert thinking_in(state) == ["sig8"]
    state, _ = step(state, Said(entries=(user("u4", "Back."),)))
    state, _ = step(state, Undone(folds=(state.log.folds[-1].fold.id,), now=NOW))
    assert thinking_in(state) == [f"sig{n}" for n in range(1, 8)]


def test_i7_x5_inside_an_open_tool_loop_an_undo_is_refused_and_behind_it_made() -> None:
    state = bound([*rounds(6, thinks=True), user("u2", "And?")])
    state, _ = run(state, CompactAsked(now=NOW), summarize=until("r5"))
    state, _ = step(due(state)[0], Replied(entries=(assistant("b1", Thinking("hm", "s9"), call("t9"), api_id="m9"),), now=NOW))
    fold = state.log.folds[-1].fold.id
    with pytest.raises(FoldError, match="tool loop"):
        step(state, Undone(folds=(fold,), now=NOW))
    state, _ = step(state, Said(entries=(user("r9", result("t9")), user("u3", "Enough."))))
    state, _ = step(state, Undone(folds=(fold,), now=NOW))
    assert "s9" not in thinking_in(state)


def test_i7_x5_what_an_undo_hides_is_never_taken_back_itself() -> None:
    said = [*rounds(6, thinks=True), user("u2", "And?"), assistant("b1", "Done.", api_id="m7"), user("u3", "Next.")]
    driver = Driver(Log(Head(id="c"), said), setup=setup_of(thinking="bound"), clock=lambda: NOW)
    driver.compact()
    driver.before_request()
    driver.replied(assistant("b2", Thinking("hm", "sig8"), "Next.", api_id="m8"))
    driver.say(user("u4", "Back."))
    driver.undo()
    assert "sig8" not in thinking_in(driver.state)
    with pytest.raises(FoldError, match="no fold"):
        driver.undo()
    hidden = driver.state.log.folds[-1].fold.id
    with pytest.raises(FoldError, match="follows"):
        step(driver.state, Undone(folds=(hidden,), now=NOW))


def test_i7_x5_a_rewind_taken_back_does_not_bring_back_what_was_thought_under_a_fold_that_stays_away() -> None:
    said = [*rounds(6, thinks=True), user("u2", "And?"), assistant("b1", "Done.", api_id="m7"), user("u3", "Next.")]
    driver = Driver(Log(Head(id="c"), said), setup=setup_of(thinking="bound"), clock=lambda: NOW)
    driver.compact()
    driver.before_request()
    driver.replied(assistant("b2", Thinking("hm", "sig8"), "Next.", api_id="m8"))
    driver.rewind("r2")
    assert thinking_in(driver.state) == ["sig1", "sig2"]
    driver.undo()
    assert "b2" in ids(driver.state) and "sig8" not in thinking_in(driver.state)


def test_i7_what_is_said_while_a_request_is_out_stands_behind_its_response() -> None:
    """In front of it it would change what the response's thinking is bound to."""
    state, _ = due(bound([user("u1", "Begin.")]))
    state, actions = step(state, Said(entries=(user("u2", "Wait, one more thing."),)))
    assert not of(actions, Append)
    state, _ = step(state, Replied(entries=(assistant("a1", Thinking("hm", "s1"), "Begun.", api_id="m1"),), now=NOW))
    assert ids(state) == ["u1", "a1", "u2"]


@pytest.mark.parametrize(
    "event", (Cancelled(now=NOW), RequestRejected(rejection=Rejection(why="other", message="no"), now=NOW)), ids=("cancelled", "refused")
)
def test_i7_what_is_said_while_a_request_is_out_is_kept_where_no_response_comes(event: Event) -> None:
    state, _ = due(bound([user("u1", "Begin.")]))
    state, _ = step(state, Said(entries=(user("u2", "Wait."),)))
    state, _ = step(state, event)
    assert ids(state) == ["u1", "u2"] and state.held == ()


def test_without_bound_thinking_what_is_said_is_in_the_log_at_once() -> None:
    state, _ = due(state_of([user("u1", "Begin.")]))
    state, actions = step(state, Said(entries=(user("u2", "Wait."),)))
    assert len(of(actions, Append)) == 1 and ids(state) == ["u1", "u2"]


def test_i7_i9_a_late_result_hides_what_was_thought_since_its_call() -> None:
    """It is sent in its call's answer, in front of that thinking: the provider would refuse every request from then on."""
    said = [
        user("u1", "Begin."),
        assistant("a1", Thinking("one", "s1"), call("t1"), api_id="m1"),
        user("u2", "Meanwhile?"),
        assistant("a2", Thinking("two", "s2"), "Yes.", api_id="m2"),
        user("u3", "Go on."),
    ]
    state, _ = step(bound(said), Said(entries=(user("r1", result("t1", "it has ended")),)))
    state, actions = due(state)
    assert thinking_in(state) == ["s1"] and of(actions, Send)
    state, _ = due(step(state_of([*said, user("r1", result("t1", "it has ended"))]), Cancelled(now=NOW))[0])
    assert thinking_in(state) == ["s1", "s2"], "where nothing is bound it stays"


def test_t2_usage_is_the_size_of_the_view_until_a_fold() -> None:
    """The setup of these tests fixes the overhead; without it a response's own count is what the meter shows."""
    setup = msgspec.structs.replace(setup_of(), overhead=None)
    said = [*rounds(2), assistant("b1", "Done.", usage=Usage(input=4_000, output=20))]
    assert state_of(said, setup).used == 4_020


def test_t5_an_exact_counter_is_asked_once_for_one_view() -> None:
    state, actions = due(state_of(rounds(4), setup_of(counts=True)))
    assert of(actions, CountTokens)
    state, actions = step(state, Counted(tokens=1_000))
    assert of(actions, Send) and state.used == 1_000
    state, actions = due(step(state, Cancelled(now=NOW))[0])
    assert of(actions, Send) and not of(actions, CountTokens)
