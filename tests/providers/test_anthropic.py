"""V1, V2: Anthropic's official SDK over HTTP to the strict simulator: what is sent, what comes back, what a refusal becomes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import anyio
import msgspec
import pytest

import fivefold
from fivefold.agent import Agent, AsyncAgent
from fivefold.calling import Call, Part, Reply, Tool
from fivefold.core.actions import Send
from fivefold.core.events import Summarized, SummaryFailed
from fivefold.core.messages import Message, Opaque, Text, Thinking, ToolUse, decode_block
from fivefold.core.policy import Policy
from fivefold.core.rejection import Rejection
from fivefold.core.repair import Request, outgoing
from fivefold.drive import AsyncDriver, Driver
from fivefold.loop_events import Compaction, Ended, Streamed
from fivefold.perform import Ports
from fivefold.providers import anthropic_reply, anthropic_wire
from fivefold.providers.anthropic import AnthropicModel, AsyncAnthropicModel
from fivefold.setup import make_setup
from fivefold.simulator import script
from fivefold.simulator.faults import Fault
from fivefold.simulator.serve import Simulator
from fivefold.summarize.flow import Answer, Ask
from tests.build import assistant, user
from tests.build import call as tool_call
from tests.build import result as tool_result

NAME = "claude-haiku-4-5"
BLOCKS = ({"type": "thinking", "thinking": "I weigh it."}, {"type": "text", "text": "Naïve – 你好."})
SAID = script.Reply(blocks=BLOCKS, calls=(script.Call("read", {"path": "a.py", "deep": {"x": [1, 2.5, None, True]}}, id="toolu_1"),))
THINKS: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 4_000}
TOOLS: tuple[dict[str, Any], ...] = ({"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}},)


class Served:
    """A simulator and a client of it."""

    def __init__(self, *steps: Any, windows: dict[str, int] | None = None, faults: Any = ()) -> None:
        self.simulator = Simulator(steps[0] if len(steps) == 1 and callable(steps[0]) else list(steps), windows=windows, faults=faults)

    def __enter__(self) -> Served:
        self.simulator.__enter__()
        self.client = anthropic.Anthropic(base_url=self.simulator.url, api_key="key")
        return self

    def __exit__(self, *error: Any) -> None:
        self.client.close()
        self.simulator.__exit__(*error)


def call_of(*entries: Any, **more: Any) -> Call:
    return Call(request=outgoing(list(entries)), send=Send(source="main", **more), model=NAME, tools=TOOLS, system=(Text("Be brief."),))


def whole(found: Any) -> tuple[list[Part], Reply | Rejection]:
    """All parts of a stream, and its end."""
    parts: list[Part] = []
    while isinstance(part := found.next(), Part):
        parts.append(part)
    return parts, part


def test_v1_i6_a_streamed_response_is_the_one_that_is_not_streamed() -> None:
    with Served(SAID, SAID) as served:
        plain = AnthropicModel(served.client, settings=THINKS, stream=False)(call_of(user("u", "Look.")))
        parts, end = whole(AnthropicModel(served.client, settings=THINKS)(call_of(user("u", "Look."))))
    assert isinstance(plain, Reply) and isinstance(end, Reply)
    thinking, text, use = plain.blocks
    assert isinstance(thinking, Thinking) and thinking.signature and text == Text("Naïve – 你好.")
    assert use == ToolUse("toolu_1", "read", {"path": "a.py", "deep": {"x": [1, 2.5, None, True]}})
    assert (end.blocks, end.stop_reason) == (plain.blocks, plain.stop_reason) == (plain.blocks, "tool_use")
    assert end.usage is not None and plain.usage is not None and end.usage.output == plain.usage.output and end.model == plain.model
    assert "".join(part.text for part in parts if part.kind == "text") == "Naïve – 你好."
    assert [part.name for part in parts if part.name] == ["read"]


def test_i5_marks_stand_on_the_system_prompt_on_the_last_message_and_where_the_last_request_ended() -> None:
    entries = [
        user("u", "Look."),
        assistant("a", tool_call("toolu_1", "read"), tool_call("toolu_2", "read"), api_id="m"),
        user("r", tool_result("toolu_1", "x"), tool_result("toolu_2", "y")),
    ]
    sent = anthropic_wire.request(call_of(*entries))
    assert sent.betas == () and sent.body["system"][0]["cache_control"] == {"type": "ephemeral"}
    first, answer, last = sent.body["messages"]
    assert first["content"][0]["cache_control"] and "cache_control" not in str(answer) and "cache_control" not in str(last["content"][0])
    assert last["content"][1]["cache_control"] == {"type": "ephemeral"}
    unmarked = anthropic_wire.request(call_of(*entries), anthropic_wire.Style(cached=False))
    assert "cache_control" not in str(unmarked.body)


def test_i5_each_request_reads_all_that_the_one_before_has_sent() -> None:
    def say(request: script.Request) -> script.Reply:
        many = 12 if request.number % 4 == 0 else 0
        return script.Reply(text=f"Step {request.number}. " * 30, calls=tuple(script.Call("read", {"n": n}) for n in range(many)))

    with Served(say) as served:
        tool = Tool(name="read", run=lambda given: "a line of a result\n" * 150, schema={"type": "object"})
        driver = Driver(setup=make_setup(NAME))
        agent = Agent(driver, model=AnthropicModel(served.client), name=NAME, tools=[tool], own_tools=False)
        for n in range(12):
            assert [event.reason for event in agent.run(f"Round {n}.") if isinstance(event, Ended)] == ["completed"]
        records = served.simulator.journal.answered
    large = [(before, after) for before, after in pairwise(records) if before.input > 6_000]
    assert len(large) >= 8 and all(after.read >= before.read + before.written for before, after in large)


def test_i5_behind_a_fold_in_the_middle_all_in_front_of_it_is_still_read() -> None:
    def said(*results: str) -> list[Any]:
        entries = [user("u", "Begin. " * 600)]
        for n, text in enumerate(results):
            entries += [assistant(f"a{n}", *(tool_call(f"t{n}_{k}", "read") for k in range(3)), api_id=f"m{n}")]
            entries += [user(f"r{n}", *(tool_result(f"t{n}_{k}", text) for k in range(3)), *(Text(f"Line {k}.") for k in range(30)))]
        return entries

    with Served(lambda request: "Yes.") as served:
        model = AnthropicModel(served.client, stream=False)
        results = ["a line of a result\n" * 100] * 8
        for n in range(9):
            assert isinstance(model(call_of(*said(*results[:n]))), Reply)
        assert isinstance(model(call_of(*said(*results[:4], "cleared", *results[5:]))), Reply)
        records = served.simulator.journal.answered
    assert records[-1].read == records[4].input > 4_096, "30 blocks a turn are more than the provider looks back"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("rate_limit", "transient"), ("overloaded", "transient"), ("server_error", "transient"), ("unauthorized", "other"),
        ("too_large", "bytes"), ("prompt_too_long", "too_long"), ("reset", "transient"), ("broken_stream", "transient"),
        ("error_event", "transient"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("streamed", [True, False])
def test_v2_whatever_goes_wrong_is_a_refusal_of_its_kind(kind: Any, why: str, streamed: bool) -> None:
    with Served(lambda request: script.Reply(text="x " * 50), faults=[Fault(kind=kind, at=(1,))]) as served:
        model = AnthropicModel(served.client, stream=streamed)
        found = model(call_of(user("u", "Look.")))
        end = found if isinstance(found, Rejection | Reply) else whole(found)[1]
        again = model(call_of(user("u", "Look.")))
        assert isinstance(again if isinstance(again, Reply) else whole(again)[1], Reply), "and the next one goes through"
    assert isinstance(end, Rejection) and end.why == why, end
    if kind == "rate_limit":
        assert (end.status, end.retry_after) == (429, 1.0)
    if kind == "prompt_too_long":
        assert (end.actual, end.limit) == (211_180, 200_000)


def test_v2_a_refusal_for_structure_is_none_of_size() -> None:
    with Served() as served:
        broken = Call(request=outgoing([user("u", "x")]), send=Send(source="main"), model="no-such-model")
        found = AnthropicModel(served.client)(broken)
    assert isinstance(found, Rejection) and (found.why, found.status) == ("other", 404)


def look(given: Any) -> str:
    return "a line of a file\n" * 300


def speak(request: script.Request) -> script.Reply:
    last = request.messages[-1]["content"]
    if isinstance(last, list) and any(part.get("type") == "tool_result" for part in last):
        return script.Reply(text=f"Seen {request.number}.")
    return script.Reply(text="I look.", calls=(script.Call("read", {"path": f"f{request.number}.py"}),))


def test_a_conversation_that_outgrows_its_window_goes_on_and_nothing_is_refused() -> None:
    with Served(speak, windows={NAME: 20_000}) as served:
        driver = Driver(setup=make_setup(NAME, window=20_000))
        agent = Agent(driver, model=AnthropicModel(served.client), name=NAME, tools=[Tool(name="read", run=look)], max_tokens=500)
        events = [event for n in range(40) for event in agent.run(f"Point {n}.")]
        assert {event.reason for event in events if isinstance(event, Ended)} == {"completed"}
        assert sum(isinstance(event, Compaction) and event.stage == "finished" for event in events) >= 2
        assert served.simulator.journal.refused == [] and max(r.size for r in served.simulator.journal.answered) < 20_000
    said = [block.text for entry in driver.log.entries() for block in entry.blocks if isinstance(block, Text) and entry.kind == "user"]
    assert said == [f"Point {n}." for n in range(40)]


def test_r1_an_overflow_and_faults_on_the_way_are_never_seen() -> None:
    faults = [
        Fault(kind=kind, at=(n,), retry_after=0.0) for n, kind in enumerate(("overloaded", "broken_stream", "prompt_too_long", "reset"), 3)
    ]
    with Served(speak, faults=faults) as served:
        agent = Agent(
            Driver(setup=make_setup(NAME)), model=AnthropicModel(served.client), name=NAME, tools=[Tool(name="read", run=look)],
            sleep=lambda seconds: None,
        )  # fmt: skip
        ends = [event.reason for n in range(8) for event in agent.run(f"Point {n}.") if isinstance(event, Ended)]
        assert ends == ["completed"] * 8 and len(served.simulator.faults.log) == 4


def test_the_async_twin_over_http_and_a_cancel_in_the_middle_of_a_stream() -> None:
    async def talk(simulator: Simulator) -> tuple[list[Any], list[Any]]:
        async with anthropic.AsyncAnthropic(base_url=simulator.url, api_key="key") as client:
            driver = AsyncDriver(setup=make_setup(NAME))
            agent = AsyncAgent(driver, model=AsyncAnthropicModel(client), name=NAME, tools=[Tool(name="read", run=look)])
            first = [event async for event in agent.run("Point 1.")]
            with anyio.CancelScope() as scope:
                async for event in agent.run("Point 2."):
                    if isinstance(event, Streamed):
                        scope.cancel()
            return first, [event async for event in agent.run("Point 3.")]

    with Served(speak) as served:
        first, last = anyio.run(talk, served.simulator)
        assert isinstance(first[-1], Ended) and first[-1].reason == last[-1].reason == "completed"
        assert served.simulator.journal.refused == []


# --- beside the loop: summaries, counts, limits

BIG = "claude-opus-5-5"
SYSTEM = (Text("Be brief. " * 50),)


def talked(model: Any, turns: int = 3, **options: Any) -> list[Any]:
    """A conversation of so many turns with a model that thinks; gives the entries, a person's words last."""
    entries = [user("u0", "Begin. " * 300)]
    for n in range(turns):
        send = Send(source=options.get("source", "main"), max_tokens=2_000)
        reply = model(Call(request=outgoing(entries), send=send, model=BIG, system=SYSTEM, tools=TOOLS))
        assert isinstance(reply, Reply), reply
        entries += [assistant(f"a{n}", *reply.blocks, api_id=reply.api_id, usage=reply.usage), user(f"u{n + 1}", f"Go on {n}. " * 100)]
    return entries


def asked(kind: Any, *entries: Any) -> Ask:
    fork = kind == "fork"
    return Ask(
        kind=kind, model="", system="" if fork else "You sum up.", entries=(*entries, user("q", "Sum up.")), text="Sum up.",
        max_tokens=1_000, thinking="inherit" if fork else "lowest", tools="inherit" if fork else "none",
    )  # fmt: skip


def test_l1_a_fork_reads_what_the_conversation_has_written_and_writes_nothing() -> None:
    with Served(lambda request: script.Reply(text="Yes.", thinking="Hm.")) as served:
        model = AnthropicModel(served.client, stream=False, settings={"thinking": {"type": "adaptive", "display": "summarized"}})
        entries = talked(model)
        before = served.simulator.journal.answered[-1]
        found = model.ask(asked("fork", *entries))
        fork = served.simulator.journal.answered[-1]
    assert isinstance(found, Answer) and (found.text, found.called_tool, found.model) == ("Yes.", False, BIG)
    assert (fork.read, fork.written) == (before.read + before.written, 0)
    same = ("system", "tools", "thinking", "model")
    assert {key: fork.body.get(key) for key in same} == {key: before.body.get(key) for key in same} and fork.body["max_tokens"] == 1_000


def test_l1_a_fork_of_a_sub_agents_conversation_is_not_the_main_ones() -> None:
    with Served(lambda request: "Yes.") as served:
        model = AnthropicModel(served.client, stream=False)
        main = talked(model)
        sub = model.for_source("agent:helper")
        small = Call(request=outgoing([user("s", "Look.")]), send=Send(source="agent:helper"), model=NAME, system=(Text("You help."),))
        assert isinstance(model(small), Reply)
        assert isinstance(sub.ask(asked("fork", user("s", "Look."))), Answer)
        assert served.simulator.journal.answered[-1].body["model"] == NAME
        assert isinstance(model.ask(asked("fork", *main)), Answer)
        assert served.simulator.journal.answered[-1].read > 1_000, "the sub-agent's request has not moved the main one's marks"


def test_l1_l4_a_direct_request_has_its_own_system_prompt_no_tools_and_the_least_thinking() -> None:
    with Served(lambda request: script.Reply(text="Short.", calls=(script.Call("read", {}),))) as served:
        model = AnthropicModel(served.client, settings={"thinking": {"type": "adaptive"}, "metadata": {"user_id": "7"}}, model=BIG)
        found = model.ask(asked("direct"))
        body = served.simulator.journal.answered[-1].body
    assert isinstance(found, Answer) and (found.text, found.called_tool, found.stop_reason) == ("Short.", True, "tool_use")
    assert body == {
        "model": BIG, "max_tokens": 1_000, "stream": True, "metadata": {"user_id": "7"}, "output_config": {"effort": "low"},
        "system": [{"type": "text", "text": "You sum up."}],
    }  # fmt: skip


def test_l8_a_refusal_of_a_summary_is_a_value_too() -> None:
    with Served(lambda request: "Yes.", faults=[Fault(kind="overloaded", at=(1,))]) as served:
        found = AnthropicModel(served.client, model=BIG).ask(asked("direct"))
    assert isinstance(found, Rejection) and found.why == "transient"


def test_t5_w9_the_provider_counts_the_view_and_tells_the_models_limits() -> None:
    with Served(lambda request: "Yes.", windows={BIG: 150_000}) as served:
        model = AnthropicModel(served.client, stream=False)
        entries = talked(model, 1)
        counted = model.count(entries)
        assert isinstance(model(Call(request=outgoing(entries), send=Send(source="main"), model=BIG, system=SYSTEM, tools=TOOLS)), Reply)
        assert counted == served.simulator.journal.answered[-1].input
        limits = model.window()
        assert model.window("no-such-model") is None
        cannot = AnthropicModel(served.client, model="no-such-model").count(entries)
    assert limits is not None and (limits.window, limits.max_output) == (150_000, 128_000) and cannot is None
    assert set(limits.edits) == {"clear_thinking", "clear_tool_uses"} and set(limits.compaction) == {"threshold", "on_demand"}


def test_l10_i7_the_providers_own_block_keeps_the_thinking_behind_it_valid() -> None:
    with Served(lambda request: script.Reply(text="Yes.", thinking="Hm.")) as served:
        model = AnthropicModel(served.client, stream=False, settings={"stop_sequences": ["END"]})
        entries = talked(model, 4)
        made = model.native(entries[:6])
        assert isinstance(made, Summarized) and made.usage is not None and made.usage.size > 1_000 and made.model == BIG
        after = [user("s", decode_block(made.block)), *entries[6:]]
        found = model(Call(request=outgoing(after), send=Send(source="main"), model=BIG, system=SYSTEM, tools=TOOLS))
        assert isinstance(found, Reply) and any(isinstance(block, Thinking) for entry in entries[6:] for block in entry.blocks)
        torn = model.native(entries[:5])
    assert isinstance(torn, Summarized), "a cut behind a person's words is legal by itself"


def test_i7_with_the_drop_setting_thinking_that_fits_no_more_is_dropped_and_that_is_told() -> None:
    with Served(lambda request: script.Reply(text="Yes.", thinking="Hm.")) as served:
        model = AnthropicModel(served.client, stream=False)
        entries = talked(model, 2)
        entries[0] = user("u0", "Something else was said.")
        edited = Call(request=outgoing(entries), send=Send(source="main"), model=BIG, system=SYSTEM, tools=TOOLS)
        refused = model(edited)
        found = model(msgspec.structs.replace(edited, send=Send(source="main", drop_thinking=True)))
    assert isinstance(refused, Rejection) and refused.why == "other" and "bound to a different conversation" in refused.message
    assert isinstance(found, Reply) and [report["type"] for report in found.told["input_transformations"]] == ["thinking_dropped"] * 2


def test_v5_a_system_message_inside_the_conversation_is_taken_where_the_model_has_it_and_elsewhere_said_by_the_user() -> None:
    reminder = Message("system", (Text("Remember."),))
    messages = (Message("user", (Text("x"),)), reminder, Message("assistant", (Text("y"),)), Message("user", (Text("z"),)), reminder)
    with Served(lambda request: "Yes.") as served:
        model = AnthropicModel(served.client, stream=False)
        for name in (BIG, NAME):
            assert isinstance(model(Call(request=Request((), messages, ()), send=Send(source="main"), model=name)), Reply)
        roles = [[message["role"] for message in record.messages] for record in served.simulator.journal.answered]
    assert roles == [["user", "system", "assistant", "user", "system"], ["user", "assistant", "user"]]


def test_l10_no_block_is_said_and_what_it_cost_too() -> None:
    with Served(lambda request: "Yes.", faults=[Fault(kind="compaction_unavailable", at=(2,)), Fault(kind="refusal", at=(3,))]) as served:
        model = AnthropicModel(served.client, stream=False)
        entries = talked(model, 1)
        refused, empty, nothing = model.native(entries[:2]), model.native(entries[:2]), model.native([])
    assert isinstance(refused, SummaryFailed) and refused.calls == 1 and "refused" in refused.why
    assert isinstance(empty, SummaryFailed) and empty.calls == 1 and "gave no summary" in empty.why
    assert isinstance(nothing, SummaryFailed) and nothing.calls == 0


@pytest.mark.parametrize("method", ["native", "model"])
def test_a_thinking_agent_whose_summaries_the_provider_or_the_model_writes_is_never_refused(method: str) -> None:
    summaries: list[str] = []

    def say(request: script.Request) -> script.Reply | str:
        if "<summary>" in script.last_text(request):
            summaries.append("model")
            return "<summary>1. Primary request: look at the points, one after the other, and say what was seen.</summary>"
        if request.purpose == "compaction":
            summaries.append("native")
            return "They look at points."
        return speak(request)

    with Served(say, windows={BIG: 20_000}) as served:
        model = AnthropicModel(served.client, settings={"thinking": {"type": "adaptive"}})
        policy = Policy.of({"summary": {"method": method}})
        driver = Driver(
            setup=make_setup(BIG, window=20_000, policy=policy), ports=Ports(ask=model.ask, native=model.native, count=model.count)
        )
        agent = Agent(driver, model=model, name=BIG, tools=[Tool(name="read", run=look)], max_tokens=500, thinks=True)
        events = [event for n in range(12) for event in agent.run(f"Point {n}.")]
        assert {event.reason for event in events if isinstance(event, Ended)} == {"completed"}
        refused = [(record.status, record.error) for record in served.simulator.journal.refused]
    assert refused == [] and summaries.count(method) >= 1 and set(summaries) == {method}


def test_e6_e7_what_the_server_clears_and_compacts_is_read_back() -> None:
    policy = Policy.of({"edits": {"tools": "results", "trigger_tokens": 8_000, "target_tokens": 4_000}, "auto": {"enabled": False}})
    with Served(speak, windows={BIG: 200_000}) as served:
        driver = Driver(setup=make_setup(BIG, window=200_000, policy=policy))
        agent = Agent(driver, model=AnthropicModel(served.client), name=BIG, tools=[Tool(name="read", run=look)], thinks=True)
        for n in range(12):
            list(agent.run(f"Point {n}."))
        cleared = [record.applied_edits for record in served.simulator.journal.answered if record.applied_edits]
        assert cleared and served.simulator.journal.refused == []
    used = [entry.usage.cleared for entry in driver.log.entries() if entry.usage is not None]
    assert max(used) > 0


def test_e7_the_providers_threshold_compaction_is_kept_and_sent_back_exactly() -> None:
    policy = Policy.of({"edits": {"compaction": True, "trigger_tokens": 50_000, "target_tokens": 4_000}})
    with Served(lambda request: speak(request) if request.purpose == "turn" else "They look at points.", windows={BIG: 200_000}) as served:
        driver = Driver(setup=make_setup(BIG, policy=policy))
        tool = Tool(name="read", run=lambda given: "a line of a file that is long enough to count\n" * 1_500)
        agent = Agent(driver, model=AnthropicModel(served.client), name=BIG, tools=[tool], thinks=True)
        reasons = {event.reason for n in range(4) for event in agent.run(f"Point {n}.") if isinstance(event, Ended)}
        records = served.simulator.journal.answered
        made = next(i for i, record in enumerate(records) if len(record.iterations) == 2)
        assert reasons == {"completed"} and served.simulator.journal.refused == []
        answer, behind = records[made].answer, records[made + 1]
    assert answer is not None and answer["content"][0]["type"] == "compaction"
    sent = [block for message in behind.messages for block in message["content"] if block["type"] == "compaction"]
    assert sent == [{key: value for key, value in answer["content"][0].items() if value is not None}]
    assert "compact-2026-01-12" in behind.betas and len(behind.messages) < 4 < len(records[made].messages)


def test_the_async_twin_asks_counts_compacts_and_looks_up_too() -> None:
    async def all_of(url: str) -> tuple[Any, ...]:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="key") as client:
            model = AsyncAnthropicModel(client, stream=False)
            reply = await model(Call(request=outgoing([user("u0", "Begin. " * 300)]), send=Send(source="main"), model=BIG, system=SYSTEM))
            assert isinstance(reply, Reply)
            entries = [user("u0", "Begin. " * 300), assistant("a0", *reply.blocks, api_id=reply.api_id)]
            fork = await model.ask(asked("fork", *entries))
            return fork, await model.count(entries[:1]), await model.native(entries), await model.window()

    with Served(lambda request: "Yes.") as served:
        fork, counted, native, limits = anyio.run(all_of, served.simulator.url)
        first = served.simulator.journal.answered[0]
    assert isinstance(fork, Answer) and fork.text == "Yes." and counted == first.input
    assert isinstance(native, Summarized) and native.block["signature"] and limits is not None and limits.window == 1_000_000


# --- without the SDK


@pytest.mark.parametrize(("module", "package"), [("anthropic", "anthropic"), ("openai_chat", "openai"), ("openai_responses", "openai")])
def test_v1_without_the_sdk_the_error_says_what_to_install_and_nothing_else_needs_it(module: str, package: str) -> None:
    program = f"""
import sys
sys.modules["{package}"] = None
import fivefold, fivefold.providers.models, fivefold.agent
assert "anthropic" not in sys.modules or sys.modules["anthropic"] is None
assert "openai" not in sys.modules or sys.modules["openai"] is None
try:
    import fivefold.providers.{module}
except ImportError as error:
    print(error)
"""
    path = str(Path(fivefold.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert f"pip install 'fivefold[{package}]'" in done.stdout


# --- a stream's events


def events() -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": {"id": "m", "model": NAME, "usage": {"input_tokens": 5, "output_tokens": 1}}}
    yield {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
    }
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"q": "a'}}
    yield {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '"}'}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "", "citations": None}}
    yield {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "x"}}
    yield {"type": "content_block_delta", "index": 1, "delta": {"type": "citations_delta", "citation": {"type": "page_location"}}}
    yield {"type": "content_block_start", "index": 2, "content_block": {"type": "compaction"}}
    yield {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "compaction_delta", "content": "So far.", "encrypted_content": None},
    }
    yield {"type": "content_block_start", "index": 3, "content_block": {"type": "hologram", "data": [1]}}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9, "input_tokens": None}}
    yield {"type": "message_delta", "delta": {}, "context_management": {"applied_edits": []}}


def test_i6_every_kind_of_block_of_a_stream_is_put_together_as_it_was() -> None:
    so_far = anthropic_reply.Gathered()
    shown = [part for event in events() if (part := so_far.take(event)) is not None]
    found = so_far.reply()
    search, text, compaction, unknown = found.blocks
    assert (search.input, text.text, text.extra["citations"]) == ({"q": "a"}, "x", [{"type": "page_location"}])
    assert compaction.data == {"type": "compaction", "content": "So far."} and unknown == Opaque({"type": "hologram", "data": [1]})
    assert (found.usage.input, found.usage.output, found.context_management) == (5, 9, {"applied_edits": []})
    assert [part.text for part in shown] == ["x"]


def test_a_calls_input_that_is_no_json_stays_text_and_gets_an_answer() -> None:
    so_far = anthropic_reply.Gathered()
    so_far.take({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "read", "input": {}}})
    so_far.take({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"path": "a'}})
    so_far.take({"type": "content_block_stop", "index": 0})
    (block,) = so_far.reply().blocks
    assert isinstance(block, ToolUse) and block.input == '{"path": "a'
