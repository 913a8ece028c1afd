"""Section 12: the query loop over a scripted model."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from fivefold.calling import Part, Reply, Tool
from fivefold.core.entries import Usage
from fivefold.core.messages import Text, ToolResult
from fivefold.core.rejection import Rejection
from fivefold.hooks import Hooks
from fivefold.loop_events import CacheBroken, Compaction, Ended, Requested, Retry, Streamed, ToolEnded
from fivefold.perform import Ports
from tests.build import call
from tests.loop.scripted import AsyncScript, Script, agent, async_agent, names, reply
from tests.rules.talk import rounds_of, words

PARTS = [Part(kind="text", text="Hel"), Part(kind="text", text="lo."), reply("Hello.")]


def last(events: list[Any]) -> Ended:
    assert isinstance(events[-1], Ended)
    return events[-1]


def add(given: Any) -> int:
    return int(given["a"]) + int(given["b"])


ADD = Tool(name="add", run=add, description="Add two numbers.")


def test_q1_q3_a_run_is_requests_tools_and_an_end() -> None:
    model = Script(reply("I add.", call("t1", "add", a=2, b=3)), PARTS)
    made = agent(model, tools=[ADD])
    events = list(made.run("What is 2 + 3?"))
    assert names(events) == [
        "Requested", "Responded", "ToolStarted", "ToolEnded", "Requested", "Streamed", "Streamed", "Responded", "Ended",
    ]  # fmt: skip
    assert last(events) == Ended(reason="completed", turns=2)
    (ended,) = [event for event in events if isinstance(event, ToolEnded)]
    assert ended.result == ToolResult("t1", "5")
    assert [message.role for message in model.calls[1].request.messages] == ["user", "assistant", "user"]
    assert [tool["name"] for tool in model.calls[0].tools] == ["add", "compact", "snip", "recall"]
    assert model.calls[0].tools[0] == {"name": "add", "description": "Add two numbers.", "input_schema": {"type": "object"}}


async def _collect(made: Any, *said: str) -> list[Any]:
    return [event async for event in made.run(*said)]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_q1_the_async_twin_behaves_the_same(backend: str) -> None:
    answers = [reply("I add.", call("t1", "add", a=2, b=3)), PARTS]
    plain, twin = agent(Script(*answers), tools=[ADD]), async_agent(AsyncScript(*answers), tools=[ADD])
    assert anyio.run(_collect, twin, "What is 2 + 3?", backend=backend) == list(plain.run("What is 2 + 3?"))
    assert list(plain.driver.log.entries()) == list(twin.driver.log.entries())


def test_q2_what_it_is_made_of_can_be_replaced() -> None:
    made = agent(Script(reply("Done.")), new_id=iter("ab").__next__, own_tools=False)
    list(made.run("Hello."))
    assert [entry.id for entry in made.driver.log.entries() if entry.kind != "note"] == ["a", "b"]
    assert made.wants.model.calls[0].tools == ()


def test_q3_compactions_are_told_with_numbers_before_the_request_that_waits_for_them() -> None:
    made = agent(Script(reply("Done.")), rounds_of(12, 1_500), window=20_000)
    events = list(made.run("Go on."))
    told = [event for event in events if isinstance(event, Compaction)]
    assert [event.stage for event in told] == ["started", "finished"]
    assert told[1].tokens_after < told[1].tokens_before
    assert names(events).index("Requested") > events.index(told[1])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Rejection(why="other", message="no such model", status=404), "model_error"),
        (Rejection(why="too_long", message="prompt is too long", status=400), "prompt_too_long"),
        (Rejection(why="media", message="bad image", status=400), "image_error"),
    ],
)
def test_q3_r5_the_end_names_the_reason(answer: Rejection, reason: str) -> None:
    """What cannot be recovered ends the run with the error that was withheld; the conversation can go on."""
    made = agent(Script(answer, reply("Back again.")))
    events = list(made.run("Hello."))
    assert last(events).reason == reason and last(events).error.startswith(answer.message)
    assert last(list(made.run("Once more."))).reason == "completed"


def test_q3_a_run_has_a_bound() -> None:
    made = agent(Script(*[reply(call(f"t{n}", "add", a=1, b=n)) for n in range(3)]), tools=[ADD], max_turns=3)
    assert last(list(made.run("Go."))) == Ended(reason="max_turns", turns=3, error="3 turns are the most of one run")


def test_r1_r2_an_overflow_is_withheld_and_the_request_made_again_smaller() -> None:
    too_long = Rejection(why="too_long", message="prompt is too long", status=400, actual=30_000, limit=20_000)
    model = Script(too_long, reply("Done."))
    made = agent(model, rounds_of(12, 1_500), policy={"auto": {"reactive_only": True}})
    events = list(made.run("Go on."))
    assert last(events).reason == "completed"
    assert [event.transition for event in events if isinstance(event, Requested)] == ["", "reactive_compact_retry"]
    assert len(str(model.calls[1].request.messages)) < len(str(model.calls[0].request.messages))


def test_r1_an_error_in_the_middle_of_a_stream_is_withheld_too() -> None:
    broken = [Part(kind="text", text="I beg"), Rejection(why="too_long", message="prompt is too long", actual=30_000, limit=20_000)]
    made = agent(Script(broken, reply("Done.")), rounds_of(12, 1_500), policy={"auto": {"reactive_only": True}})
    events = list(made.run("Go on."))
    assert last(events).reason == "completed"
    assert "I beg" not in str(made.driver.log.entry_at(len(made.driver.log) - 1))


def test_r10_an_answer_that_ended_for_lack_of_room_is_an_overflow() -> None:
    full = reply("I was about", stop="model_context_window_exceeded")
    made = agent(Script(full, reply("Done.")), rounds_of(12, 1_500), policy={"auto": {"reactive_only": True}})
    events = list(made.run("Go on."))
    assert last(events).reason == "completed"
    assert [event.transition for event in events if isinstance(event, Requested)] == ["", "reactive_compact_retry"]


def test_l8_what_passes_is_waited_for_and_what_the_provider_says_is_heeded() -> None:
    slept: list[float] = []
    busy = Rejection(why="transient", message="overloaded", status=529)
    told = Rejection(why="transient", message="slow down", status=429, retry_after=7.0)
    made = agent(Script(busy, told, busy, reply("Done.")), sleep=slept.append)
    events = list(made.run("Hello."))
    assert last(events).reason == "completed" and slept[1] == 7.0 and slept[0] < slept[2]
    assert [event.seconds for event in events if isinstance(event, Retry)] == slept


def test_l8_it_is_not_waited_for_without_end() -> None:
    busy = Rejection(why="transient", message="overloaded", status=529)
    model = Script(*[busy] * 20)
    made = agent(model)
    assert last(list(made.run("Hello."))).reason == "model_error" and len(model.calls) <= 7


# --- tools


def test_i1_a_tool_that_fails_or_is_not_there_is_an_error_result() -> None:
    model = Script(reply(call("t1", "add", a="x", b=1), call("t2", "fly")), reply("I see."))
    events = list(agent(model, tools=[ADD]).run("Go."))
    failed, unknown = [event.result for event in events if isinstance(event, ToolEnded)]
    assert failed.is_error and failed.content.startswith("ValueError: ")
    assert unknown.is_error and "add, compact, snip, recall" in unknown.content


def test_x8_the_agent_compacts_its_own_conversation_at_the_next_legal_point() -> None:
    model = Script(reply("Full.", call("tc", "compact")), reply("Now there is room."))
    made = agent(model, rounds_of(12, 1_500), window=60_000)
    events = list(made.run("Make room, then go on."))
    assert last(events).reason == "completed" and [event.stage for event in events if isinstance(event, Compaction)] == [
        "started",
        "finished",
    ]
    full, smaller = [event.tokens for event in events if isinstance(event, Requested)]
    assert smaller < 0.8 * full


def test_tools_that_may_run_beside_one_another_do_on_an_event_loop() -> None:
    started = 0

    async def meet(given: Any) -> str:
        nonlocal started
        started += 1
        with anyio.fail_after(5):
            while started < 2:
                await anyio.sleep(0)
        return "met"

    tools = [Tool(name="meet", run=meet, concurrent=True)]
    model = AsyncScript(reply(call("t1", "meet"), call("t2", "meet")), reply("Both."))
    events = anyio.run(_collect, async_agent(model, tools=tools), "Go.")
    assert [event.result.content for event in events if isinstance(event, ToolEnded)] == ["met", "met"]


# --- Q4: stops


def test_q4_a_stop_in_the_middle_of_a_stream_keeps_what_was_said() -> None:
    script = Script([Part(kind="text", text="Once upon"), Part(kind="text", text=" a time"), reply("never")], reply("Again."))
    made = agent(script)
    events = []
    for event in made.run("Tell me a story."):
        events.append(event)
        if isinstance(event, Streamed):
            made.stop()
    assert last(events).reason == "aborted" and script.closed == 1
    assert made.driver.log.entry_at(len(made.driver.log) - 1).blocks == (Text("Once upon"),)
    assert last(list(made.run("Go on."))).reason == "completed"


def test_q4_leaving_between_call_and_result_leaves_a_request_that_a_provider_takes() -> None:
    model = Script(reply(call("t1", "add", a=1, b=1), call("t2", "add", a=2, b=2)), reply("I see."))
    made = agent(model, tools=[ADD])
    for event in made.run("Go."):
        if isinstance(event, ToolEnded):
            break
    list(made.run("What happened?"))
    results = [block for block in model.calls[1].request.messages[2].blocks if isinstance(block, ToolResult)]
    assert [(block.tool_use_id, block.is_error) for block in results] == [("t1", False), ("t2", True)]
    assert "interrupted" in results[1].content


def test_q4_an_exception_of_the_caller_or_of_the_model_leaves_a_conversation_that_goes_on() -> None:
    made = agent(Script(OSError("no route"), reply("Here.")))
    with pytest.raises(OSError, match="no route"):
        list(made.run("Hello."))
    assert last(list(made.run("Hello?"))).reason == "completed"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_q4_cancelling_a_task_that_waits_for_the_model(backend: str) -> None:
    script = AsyncScript([Part(kind="text", text="Once"), anyio.sleep_forever], reply("Again."))
    made = async_agent(script)

    async def cancelled() -> None:
        with anyio.move_on_after(0.05):
            await _collect(made, "Tell me a story.")
        assert script.closed == 1
        assert last(await _collect(made, "Go on.")).reason == "completed"

    anyio.run(cancelled, backend=backend)
    spoken = [entry.blocks[0].text for entry in made.driver.log.entries() if entry.kind == "assistant"]
    assert spoken == ["Once", "Again."]


def test_one_run_at_a_time() -> None:
    made = agent(Script(PARTS, reply("x")))
    running = made.run("One.")
    next(running)
    with pytest.raises(RuntimeError, match="running already"):
        next(made.run("Two."))
    running.close()


# --- hooks


def test_r5_a_stop_hook_may_send_the_agent_back_to_work_but_not_for_ever_and_not_after_a_failure() -> None:
    hooks, asked = Hooks(), []
    hooks.add("stop", lambda payload: asked.append(payload["stop_hook_active"]) or {"block": "The tests still fail."})
    model = Script(*[reply(f"Done {n}.") for n in range(4)], Rejection(why="other", message="no", status=400))
    made = agent(model, ports=Ports(hooks=hooks))
    assert last(list(made.run("Go."))) == Ended(reason="completed", turns=4)
    assert asked == [False, True, True] and "The tests still fail." in str(model.calls[1].request.messages[-1])
    assert last(list(made.run("Go."))).reason == "model_error" and len(asked) == 3


# --- Q5: sub-agents


def test_q5_a_sub_agent_touches_nothing_of_its_parent() -> None:
    model = Script(reply(call("t1", "task", prompt="Count the birds.")), reply("There are three."), reply("Three birds."))
    made = agent(model)
    made.loop.tools["task"] = made.task_tool()
    before = made.driver.state.tracking
    list(made.run("How many?"))
    assert model.calls[1].send.source == "agent:task" and [len(call.request.messages) for call in model.calls] == [1, 1, 3]
    assert "There are three." in str(model.calls[2].request.messages[-1])
    assert (before.compacted, before.failures) == (made.driver.state.tracking.compacted, made.driver.state.tracking.failures)
    assert [entry.source for entry in made.driver.log.entries()] == ["main"] * len(made.driver.log)


def test_x9_what_a_sub_agent_returns_is_capped_like_any_result() -> None:
    model = Script(reply(call("t1", "task", prompt="Read all.")), reply(words(30_000)), reply("Long."))
    made = agent(model, window=60_000)
    made.loop.tools["task"] = made.task_tool()
    list(made.run("Go."))
    assert made.driver.tokens < 20_000 and "recall" in str(model.calls[2].request.messages[-1])


def test_p4_a_fold_that_broke_the_cache_is_told_as_the_cause() -> None:
    def answered(**usage: int) -> Reply:
        return Reply(blocks=(Text("Done."),), stop_reason="end_turn", usage=Usage(**usage))

    made = agent(Script(answered(cache_write=9_000), answered(cache_read=9_000), answered(cache_write=2_000)), rounds_of(6, 1_000))
    list(made.run("One."))
    assert not [event for event in made.run("Two.") if isinstance(event, CacheBroken)]
    made.driver.compact()
    (broken,) = [event for event in made.run("Three.") if isinstance(event, CacheBroken)]
    assert (broken.cause, broken.expected, broken.read) == ("fold", 9_000, 0)
