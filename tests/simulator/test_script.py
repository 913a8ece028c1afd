"""U4: the model behind the simulator: a script, a recorded conversation, a function, a structural model."""

from __future__ import annotations

import asyncio
import http.client
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import anthropic
import pytest

from fivefold.core.entries import Entry
from fivefold.core.messages import Text, Thinking, ToolUse
from fivefold.errors import LeftoverStepsError, SimulatorError, UnexpectedRequestError
from fivefold.simulator.script import Call, Reply, Request, Script, Structural, read_script, recorded
from fivefold.simulator.serve import Simulator

from .asking import MODEL, OLD, TOOL, assistant, client_of, openai_of, result, user, words


def ask(client: anthropic.Anthropic, *messages: Any, **body: Any) -> anthropic.types.Message:
    sent: Any = {"model": MODEL, "max_tokens": 1000, "messages": list(messages or [user("a")]), **body}
    return client.messages.create(**sent)


def texts(answer: anthropic.types.Message) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")


def test_u4_a_script_answers_in_its_order() -> None:
    steps = ["one", Reply("two", calls=(Call("bash", {"command": "ls"}),)), lambda request: f"three of {request.number}"]
    with Simulator(steps) as sim, client_of(sim) as client:
        answers = [ask(client) for _ in range(3)]
    assert [texts(answer) for answer in answers] == ["one", "two", "three of 2"]
    assert [answer.stop_reason for answer in answers] == ["end_turn", "tool_use", "end_turn"]


def test_u4_an_unexpected_request_fails_at_once_and_at_the_end() -> None:
    unexpected = pytest.raises(UnexpectedRequestError, match="turn number 2, but the script has 1: 'what now'")
    with unexpected, Simulator(["one"]) as sim, client_of(sim, max_retries=2) as client:
        ask(client)
        with pytest.raises(anthropic.InternalServerError, match="unexpected request"):
            ask(client, user("what now"))
        assert len(sim.journal.records) == 2  # the client does not try it again


def test_u4_leftover_steps_fail() -> None:
    left = pytest.raises(LeftoverStepsError, match="2 steps of the script were not used, the first: 'two'")
    with left, Simulator(["one", "two", "three"]) as sim, client_of(sim) as client:
        ask(client)


def test_u4_a_model_that_raises_fails_the_end_too() -> None:
    def model(request: Request) -> str:
        raise ValueError("wrong")

    failed = pytest.raises(SimulatorError, match="ValueError")
    with failed, Simulator(model) as sim, client_of(sim) as client, pytest.raises(anthropic.InternalServerError):
        ask(client)


def test_u4_an_error_inside_the_with_statement_is_not_hidden_by_leftover_steps() -> None:
    with pytest.raises(KeyError), Simulator(["one"]):
        raise KeyError("mine")


def test_u4_a_function_may_be_asynchronous() -> None:
    async def model(request: Request) -> str:
        await asyncio.sleep(0.001)
        return request.model

    with Simulator(model) as sim, client_of(sim) as client:
        assert texts(ask(client)) == MODEL


def test_u4_output_tokens_and_stop_reason_can_be_given() -> None:
    steps = [Reply("ok", output_tokens=700), Reply("ok", output_tokens=7_000), Reply("ok", stop_reason="pause_turn")]
    with Simulator(steps) as sim, client_of(sim) as client:
        answers = [ask(client) for _ in range(3)]
    assert [answer.usage.output_tokens for answer in answers] == [700, 1000, 2]
    assert [answer.stop_reason for answer in answers] == ["end_turn", "max_tokens", "pause_turn"]


def test_u4_summaries_have_their_own_steps() -> None:
    compact: Any = {"betas": ["compact-2026-09-04"], "compaction": {"type": "summarize"}, "model": MODEL, "max_tokens": 1000}
    with Simulator(Script(["turn"], summaries=["short"])) as sim, client_of(sim) as client:
        assert client.beta.messages.create(**compact, messages=[user("a")]).content[0].to_dict()["content"] == "short"
        assert texts(ask(client)) == "turn"
    with Simulator(Script(["turn"])) as sim, client_of(sim) as client:
        extracted = client.beta.messages.create(**compact, messages=[user("Fix the parser."), assistant("Done."), user("Thanks.")])
        assert extracted.content[0].to_dict()["content"] == "3 messages.\n- asked: Fix the parser.\n- asked: Thanks.\n- answered: Done."
        assert texts(ask(client)) == "turn"
    with pytest.raises(LeftoverStepsError, match="short"), Simulator(Script([], summaries=["short"])):
        pass


def test_u4_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"steps": ["one", {"text": "two", "calls": [{"name": "bash", "input": {"command": "ls"}}]}], "summaries": []}')
    with Simulator(read_script(path)) as sim, client_of(sim) as client:
        assert [ask(client).stop_reason for _ in range(2)] == ["end_turn", "tool_use"]
    for wrong in ('{"step": []}', '[{"txt": "one"}]', "[1]", "nonsense"):
        path.write_text(wrong)
        with pytest.raises(SimulatorError, match=r"script\.json"):
            read_script(path)
    with pytest.raises(SimulatorError, match="cannot be read"):
        read_script(tmp_path / "none.json")


def test_u4_a_recorded_conversation_is_played_back_by_position() -> None:
    entries = [
        Entry(id="u1", kind="user", blocks=(Text("go"),)),
        Entry(id="a1", kind="assistant", api_id="msg_1", blocks=(Thinking("hm", "sig"),)),
        Entry(id="a2", kind="assistant", api_id="msg_1", blocks=(ToolUse("toolu_9", "bash", {"command": "ls"}),)),
        Entry(id="s1", kind="assistant", source="agent:helper", blocks=(Text("elsewhere"),)),
        Entry(id="a3", kind="assistant", api_id="msg_2", blocks=(Text("done"),)),
    ]
    with Simulator(recorded(entries)) as sim, client_of(sim) as client:
        first, second = ask(client), ask(client)
    assert [block.type for block in first.content] == ["thinking", "tool_use"]
    assert first.content[1].to_dict() == {"type": "tool_use", "id": "toolu_9", "name": "bash", "input": {"command": "ls"}}
    assert texts(second) == "done"


def test_u4_the_structural_model_calls_tools_then_ends() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "line": {"type": "integer"}, "how": {"enum": ["r", "w"]}}}
    tool: Any = {"name": "read", "input_schema": {**schema, "required": ["path", "line", "how"]}}
    with Simulator(Structural(rounds=2)) as sim, client_of(sim) as client:
        messages: list[Any] = [user("Look at it.")]
        for _ in range(2):
            answer = ask(client, *messages, tools=[tool])
            call = answer.content[-1].to_dict()
            assert call["name"] == "read" and set(call["input"]) == {"path", "line", "how"}
            messages += [{"role": "assistant", "content": [block.to_dict() for block in answer.content]}, user(result(call["id"]))]
        assert texts(ask(client, *messages, tools=[tool])) == "Done after 2 tool results: Look at it."
        again = ask(client, *messages, assistant("Done."), user("And now?"), tools=[tool])
        assert again.stop_reason == "tool_use"
        assert texts(ask(client)) == "Done after 0 tool results: a"
        summary = texts(ask(client, user("Fix it."), assistant("Done."), user("Sum it up in <summary></summary>.")))
        assert summary == "<summary>\n2 messages.\n- asked: Fix it.\n- answered: Done.\n</summary>"


def test_u4_the_structural_model_speaks_to_openai_s_clients() -> None:
    chat_tool: Any = {"type": "function", "function": {"name": "bash", "parameters": TOOL["input_schema"]}}
    flat_tool: Any = {"type": "function", "name": "bash", "parameters": TOOL["input_schema"], "strict": None}
    with Simulator() as sim, openai_of(sim) as client:
        completion = client.chat.completions.create(model="gpt-5.5", messages=[{"role": "user", "content": "a"}], tools=[chat_tool])
        response = client.responses.create(model="gpt-5.5", input="a", tools=[flat_tool])
        assert completion.choices[0].finish_reason == "tool_calls" and response.output[0].type == "function_call"
        call = response.output[0].to_dict()
        output: Any = {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
        done = client.responses.create(model="gpt-5.5", input=[{"role": "user", "content": "a"}, call, output], tools=[flat_tool])  # type: ignore[list-item]
        assert done.output_text == "Done after 1 tool results: a"


# --- the journal


def test_u5_the_journal_says_what_was_asked_and_answered() -> None:
    with Simulator(["ok", "ok"]) as sim, client_of(sim) as client:
        ask(client, user("a"), system="Be brief.", tools=[TOOL])
        ask(client, user("a"), assistant("ok"), user("b"), system="Be brief.", tools=[TOOL])
        with pytest.raises(anthropic.BadRequestError):
            ask(client, user(""))
        first, second, refused = sim.journal.records
        assert second.request["messages"] == [user("a"), assistant("ok"), user("b")] and second.request["tools"] == [TOOL]
        assert (second.request["system"], second.request["max_tokens"]) == ("Be brief.", 1000)
        assert first.messages[0] is second.messages[0]  # a growing history is kept once
        assert first.answer is not None and first.answer["content"] == [{"type": "text", "text": "ok"}]
        assert (refused.status, refused.input, refused.usd) == (400, 0, None) and "non-empty content" in (refused.error or "")
        assert (len(sim.journal.answered), len(sim.journal.refused)) == (2, 1)
        assert sim.journal.usd == pytest.approx((first.usd or 0) + (second.usd or 0)) and sim.journal.usd > 0


def test_u5_a_journal_can_forget_texts_but_not_numbers() -> None:
    with Simulator(lambda request: "ok", keep=1) as sim, client_of(sim) as client:
        ask(client, user("first"))
        ask(client, user("second"))
        first, second = sim.journal.records
        assert (list(first.messages), first.answer, first.input) == ([], None, second.input)
        assert second.messages == [user("second")] and second.answer is not None and sim.journal.usd > 0


def test_u5_a_long_text_without_spaces_is_counted_in_no_time() -> None:
    """The tokenizer takes time in the square of such a run; 10 s for 20,000 letters."""
    with Simulator(lambda request: "ok") as sim, client_of(sim) as client:
        counted = client.messages.count_tokens(model=OLD, messages=[user("a" * 200_000)])
    assert 24_000 < counted.input_tokens < 27_000


def test_u3_a_growing_history_is_tokenised_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the second request tokenises is what is new in it."""
    with Simulator(lambda request: "ok") as sim, client_of(sim) as client:
        counter = sim.world.limits(OLD).reader.counter
        seen: list[int] = []
        real = counter._tokens
        monkeypatch.setattr(counter, "_tokens", lambda text: seen.append(len(text)) or real(text))
        ask(client, user("first " + words(3_001)), model=OLD)
        before = sum(seen)
        ask(client, user("first " + words(3_001)), assistant("ok"), user("something new and unseen"), model=OLD)
        assert before > 15_000 and sum(seen) - before < 60


# --- starting and stopping


def test_u1_two_simulators_run_side_by_side_and_a_taken_port_is_named() -> None:
    with Simulator(["one"]) as one, Simulator(["two"]) as two:
        for sim, expected in ((one, "one"), (two, "two")):
            with client_of(sim) as client:
                assert texts(ask(client)) == expected
        port = int(one.url.rsplit(":", 1)[1])
        with pytest.raises(SimulatorError, match=f"port {port} of"):
            Simulator(port=port).start()
        with pytest.raises(SimulatorError, match="started already"):
            one.start()


def test_u1_without_a_start_there_is_no_url() -> None:
    sim = Simulator()
    with pytest.raises(SimulatorError, match="not started"):
        _ = sim.url
    sim.stop()
    with pytest.raises(SimulatorError, match="window must be a positive"):
        Simulator(windows={"my-model": 0})


def test_u1_stopping_does_not_wait_for_a_model_that_does_not_answer() -> None:
    async def never(request: Request) -> str:
        await asyncio.sleep(60)
        return "late"

    with Simulator(never) as sim, client_of(sim, timeout=0.05) as client, pytest.raises(anthropic.APITimeoutError):
        ask(client)
    assert sim.journal.records[0].answer is None


def test_u1_the_app_runs_under_another_server_too() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/v1/models", "headers": [(b"authorization", b"Bearer k")], "query_string": b""}
    asyncio.run(Simulator(windows={"my-model": 9}).app(scope, receive, send))
    assert sent[0]["status"] == 200 and b"my-model" in sent[1]["body"]


def test_u1_no_answer_waits_for_the_client_s_acknowledgement() -> None:
    """With Nagle's algorithm on, each answer on a kept connection takes 40 ms longer."""
    with Simulator(lambda request: "ok") as sim, closing(http.client.HTTPConnection(sim.url.removeprefix("http://"))) as connection:
        taken = []
        for _ in range(12):
            began = time.perf_counter()
            connection.request("GET", "/v1/models", headers={"authorization": "Bearer key"})
            connection.getresponse().read()
            taken.append(time.perf_counter() - began)
    assert min(taken[2:]) < 0.03
