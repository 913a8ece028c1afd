"""Callers without state (Y4): which conversation a history is, and what goes out for it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fivefold.core.entries import Head, Usage
from fivefold.drive import Driver
from fivefold.histories import Answered, Histories, changed, messages_of
from tests.rules.talk import Clock, setup_of, summaries, words

MARK = {"type": "ephemeral"}


def histories(window: int = 20_000, **more: Any) -> Histories[Driver]:
    return Histories(lambda log: Driver(log, setup=setup_of(window), clock=Clock()), **more)


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}]}


def rounds(count: int, tokens: int = 700, start: int = 0) -> list[Any]:
    found: list[Any] = []
    for n in range(start, start + count):
        call = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": f"src/part{n}.py"}}
        given = {"type": "tool_result", "tool_use_id": f"t{n}", "content": words(tokens, f"part{n}")}
        found += [
            user(f"Look into part {n}."),
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [given]},
            answer(f"Part {n}."),
        ]
    return found


class Client:
    """A program that keeps its own messages and sends all of them each time."""

    def __init__(self, known: Histories[Driver], marks: bool = False) -> None:
        self.known, self.marks = known, marks
        self.messages: list[Any] = []
        self.sent: list[list[Any]] = []

    def send(self, *new: Any) -> Any:
        self.messages += new
        given = [*self.messages]
        if self.marks:
            text = given[-1]["content"] if isinstance(given[-1]["content"], str) else None
            blocks = [{"type": "text", "text": text}] if text is not None else [dict(block) for block in given[-1]["content"]]
            blocks[-1]["cache_control"] = MARK
            given[-1] = {**given[-1], "content": blocks}
        history = self.known.find(given, Head())
        out = history.driver.before_request()
        self.sent.append(messages_of(history, out) if changed(out) else given)
        history.answered = Answered(usage=Usage(input=history.driver.tokens, output=5), api_id=f"api{len(self.sent)}")
        self.messages.append(answer(f"Answer {len(self.sent)}."))
        return history


def test_y4_a_history_that_grows_is_one_conversation() -> None:
    known = histories()
    client = Client(known, marks=True)
    first = client.send(user("One."))
    assert client.send(user("Two.")) is first and client.send(user("Three.")) is first and len(known) == 1
    spoken = [entry for entry in first.driver.log.entries() if entry.kind == "assistant"]
    assert [entry.api_id for entry in spoken] == ["api1", "api2"] and all(entry.usage for entry in spoken)
    assert client.sent[-1] == [
        *client.messages[:-2],
        {"role": "user", "content": [{"type": "text", "text": "Three.", "cache_control": MARK}]},
    ]


def test_y4_i5_what_was_folded_stays_folded_and_the_prefix_is_the_same_bytes_turn_after_turn() -> None:
    client = Client(histories(), marks=True)
    history = client.send(*rounds(14), user("Go on."))
    assert summaries(history.driver.state)
    for n in range(4):
        client.send(user(f"And {n}?"))
    plain = [[_bare(message) for message in sent] for sent in client.sent]
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(plain))
    assert all(sum(str(message).count("cache_control") for message in sent) <= 2 for sent in client.sent)


def _bare(message: Any) -> Any:
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return {**message, "content": [{k: v for k, v in block.items() if k != "cache_control"} for block in content]}


def test_y4_a_rewound_history_is_a_conversation_of_its_own_with_the_folds_that_lie_inside_it() -> None:
    known = histories()
    client = Client(known)
    first = client.send(*rounds(14), user("Go on."))
    folds = len(first.driver.log.folds)
    client.send(user("Then this."))
    client.messages = client.messages[:-3]
    other = client.send(user("No, that."))
    assert other is not first and len(known) == 2 and len(other.driver.log.folds) == folds
    assert "No, that." in str(client.sent[-1]) and "Then this." not in str(client.sent[-1])
    client.messages = rounds(14)[:20]
    earlier = client.send(user("From here."))
    assert earlier.driver.log.folds == () and len(known) == 3


def test_y4_a_sub_agent_with_another_first_message_touches_nothing() -> None:
    known = histories()
    main, sub = Client(known), Client(known)
    first = main.send(user("Main."))
    assert sub.send(user("Sub.")) is not first and main.send(user("On.")) is first


def test_y4_a_client_that_compacts_by_itself_begins_anew() -> None:
    known = histories()
    client = Client(known)
    first = client.send(user("One."))
    client.messages = [user("Summary of what was.")]
    assert client.send(user("On.")) is not first and len(known) == 2


def test_y4_the_same_request_again_is_no_new_message() -> None:
    known = histories()
    client = Client(known)
    first = client.send(user("One."))
    del client.messages[-1]
    assert client.send() is first and len(first.driver.log) == first.ends[-1]


def test_y4_what_was_forgotten_begins_anew_and_is_served() -> None:
    known = histories(most=2)
    clients = [Client(known) for _ in range(3)]
    for n, client in enumerate(clients):
        client.send(user(f"Client {n}."))
    assert len(known) == 2
    clients[0].send(user("Still here."))
    assert clients[0].sent[-1] == clients[0].messages[:-1]


def test_y4_ids_are_the_same_in_every_process() -> None:
    ids = [
        [entry.id for entry in histories().find([user("One."), answer("x"), user("One.")], Head()).driver.log.entries()] for _ in range(2)
    ]
    assert ids[0] == ids[1] and len(set(ids[0])) == 3


def test_y4_a_chat_history_is_known_by_its_prefix_too() -> None:
    known = histories(wire="openai-chat")
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, user("2 + 3?")]
    first = known.find(messages, Head())
    first.driver.before_request()
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}
    messages += [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "5"}]
    assert known.find(messages, Head()) is first
    assert [entry.kind for entry in first.driver.log.entries() if entry.kind != "note"] == ["system", "user", "assistant", "user"]


def test_y4_a_message_of_no_known_role_is_refused_and_nothing_taken_in() -> None:
    known = histories()
    with pytest.raises(ValueError, match="message 2 has no role"):
        known.find([user("One."), {"role": "robot", "content": "x"}], Head())
    assert len(known) == 0
