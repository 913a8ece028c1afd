"""V1, V2, I5, I6, I7, E1, E7, M3, V5: what the official SDK puts on the wire for Anthropic, byte by byte, and what it makes of answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import anthropic
import anyio
import pytest

from fivefold.agent import Agent, AsyncAgent
from fivefold.calling import Call, Part, Reply
from fivefold.core.actions import Send
from fivefold.core.levels.cached import EditsBlock
from fivefold.core.levels.server_edits import ServerEdits
from fivefold.core.messages import Message, Object, Opaque, RedactedThinking, ServerToolResult, ServerToolUse, Text, ToolUse, decode_block
from fivefold.core.rejection import Rejection
from fivefold.core.repair import Request, outgoing
from fivefold.drive import AsyncDriver, Driver
from fivefold.loop_events import Ended, Streamed
from fivefold.providers.anthropic import AnthropicModel, AsyncAnthropicModel
from fivefold.providers.anthropic_models import has_mid_system, lowest_thinking
from fivefold.setup import make_setup
from fivefold.summarize.flow import Answer, Ask
from tests.build import assistant, user
from tests.build import call as tool_call
from tests.build import result as tool_result
from tests.providers.recorder import Canned, Recorder

NAME = "claude-opus-5-5"
CONTENT: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "", "signature": "sig-1"},
    {"type": "redacted_thinking", "data": "opaque"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "naïve – 你好"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [
            {"type": "web_search_result", "url": "https://example.org/", "title": "x", "encrypted_content": "enc", "page_age": None}
        ],
    },
    {
        "type": "text",
        "text": "Found it.",
        "citations": [{"type": "web_search_result_location", "url": "https://example.org/", "encrypted_index": "e", "cited_text": "x"}],
    },
    {"type": "hologram", "depth": 3, "inner": [1, 2.5, None, {"a": True}]},
    {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"b": 1, "a": [2.0, None, "é"]}, "caller": {"type": "direct"}},
]
USAGE = {
    "input_tokens": 7, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 300, "output_tokens": 40,
    "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15}, "output_tokens_details": {"thinking_tokens": 11},
    "some_new_counter": 1,
}  # fmt: skip


def message(*content: dict[str, Any], stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    made = {"id": "msg_1", "type": "message", "role": "assistant", "model": NAME, "content": list(content), "usage": USAGE}
    return {**made, "stop_reason": stop, "stop_sequence": None, **more}


def events(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The stream of a response, every text and JSON in two pieces."""
    late = {key: whole[key] for key in ("context_management",) if key in whole}
    begun = {key: value for key, value in whole.items() if key not in late}
    usage = {**USAGE, "output_tokens": 1}
    found: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**begun, "content": [], "stop_reason": None, "usage": usage}}, {"type": "ping"},
    ]  # fmt: skip
    for index, block in enumerate(whole["content"]):
        start, deltas = dict(block), list[dict[str, Any]]()
        for key, kind in (("text", "text_delta"), ("thinking", "thinking_delta")):
            if isinstance(block.get(key), str) and block["type"] == key:
                start[key], half = "", len(block[key]) // 2
                deltas += [{"type": kind, key: piece} for piece in (block[key][:half], block[key][half:]) if piece]
        if "signature" in block and block["type"] == "thinking":
            start["signature"] = ""
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        if block.get("citations"):
            start["citations"] = []
            deltas += [{"type": "citations_delta", "citation": citation} for citation in block["citations"]]
        if block["type"] in ("tool_use", "server_tool_use"):
            start["input"], text = {}, json.dumps(block["input"])
            deltas += [{"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:7], text[7:])]
        found.append({"type": "content_block_start", "index": index, "content_block": start})
        found += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        found.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    return [*found, {"type": "message_delta", "delta": end, "usage": {**USAGE}, **late}, {"type": "message_stop"}]


@contextmanager
def client_of(server: Recorder, timeout: float = 5.0) -> Iterator[anthropic.Anthropic]:
    """A client of the recorder; what is slow to make is made once, and closed with the tests."""
    yield CLIENTS[0].with_options(base_url=server.url, timeout=timeout)


CLIENTS: list[anthropic.Anthropic] = []


@pytest.fixture(autouse=True, scope="module")
def client() -> Iterator[None]:
    with anthropic.Anthropic(base_url="http://127.0.0.1:9", api_key="k") as made:
        CLIENTS.append(made)
        yield
        CLIENTS.clear()


def call_of(*entries: Any, name: str = NAME, **send: Any) -> Call:
    return Call(request=outgoing(list(entries)), send=Send(source="main", **send), model=name)


def sent_by(*calls: Call, **options: Any) -> list[Any]:
    """What goes over the wire for these calls of one model object."""
    with (
        Recorder(Canned(message({"type": "text", "text": "ok"}))) as server,
        anthropic.Anthropic(base_url=server.url, api_key="k") as client,
    ):
        model = AnthropicModel(client, **{"stream": False, **options})
        for call in calls:
            assert isinstance(model(call), Reply)
        return server.asked


def end_of(found: Any) -> Any:
    while not isinstance(found, Reply | Rejection):
        part = found.next()
        found = found if isinstance(part, Part) else part
    return found


def answered(*answers: Canned, call: Call | None = None, timeout: float = 5.0, **options: Any) -> Any:
    with Recorder(*answers) as server, client_of(server, timeout) as client:
        found = end_of(AnthropicModel(client, **options)(call or call_of(user("u", "Look."))))
        assert len(server.asked) == 1, "the SDK has asked again by itself"
        return found


# --- nothing is lost


def test_i6_every_kind_of_block_comes_back_as_it_was_streamed_or_not_and_goes_out_again_unchanged() -> None:
    whole = message(
        *CONTENT,
        stop="tool_use",
        context_management={"applied_edits": []},
        container={"id": "c", "expires_at": "2026-12-01T08:09:10.111213Z"},
    )
    plain, streamed = answered(Canned(whole), stream=False), answered(Canned(events(whole)))
    assert plain == streamed and plain.told["container"] == {"id": "c", "expires_at": "2026-12-01T08:09:10.111213Z"}
    kinds = [type(block) for block in plain.blocks]
    assert kinds[1:4] == [RedactedThinking, ServerToolUse, ServerToolResult] and isinstance(plain.blocks[5], Opaque)
    assert plain.blocks[6] == ToolUse("toolu_1", "read", {"b": 1, "a": [2.0, None, "é"]}, {"caller": {"type": "direct"}})
    (asked,) = sent_by(call_of(user("u", "Look."), assistant("a", *plain.blocks, api_id="m"), user("r", tool_result("toolu_1"))))
    assert asked.body["messages"][1] == {"role": "assistant", "content": CONTENT}
    assert b'"input":{"b":1,"a":[2.0,null,"\xc3\xa9"]}' in asked.raw, "keys of an input keep their order, or the prompt cache breaks"


def test_t8_usage_has_disjoint_parts_and_a_compactions_window_is_a_cost_and_no_size() -> None:
    windows = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
    ]
    usage = {"input_tokens": 23_000, "output_tokens": 1_000, "iterations": windows}
    found = answered(Canned(message({"type": "text", "text": "x"}, usage=usage)), stream=False)
    assert found.usage.size == 24_000 and [part.kind for part in found.usage.iterations] == ["compaction", "message"]
    plain = answered(Canned(message({"type": "text", "text": "x"})), stream=False).usage
    assert (plain.input, plain.cache_write, plain.cache_read, plain.output, plain.thinking, plain.cache_write_1h) == (
        7,
        20,
        300,
        40,
        11,
        15,
    )


def test_parts_of_a_stream_tell_text_and_the_tools_name_and_the_json_as_it_comes() -> None:
    whole = message(*CONTENT, stop="tool_use")
    with Recorder(Canned(events(whole))) as server, client_of(server) as client:
        stream: Any = AnthropicModel(client)(call_of(user("u", "Look.")))
        parts = []
        while isinstance(part := stream.next(), Part):
            parts.append(part)
    assert "".join(part.text for part in parts if part.kind == "text") == "Found it."
    calls = [part for part in parts if part.kind == "call"]
    assert (calls[0].name, calls[0].index) == ("read", 6) and json.loads("".join(part.text for part in calls)) == CONTENT[6]["input"]


# --- what is sent


def turns(count: int) -> list[Any]:
    entries = [user("u", "Begin.")]
    for n in range(count):
        entries += [
            assistant(f"a{n}", f"Step {n}.", *(tool_call(f"t{n}_{k}", "read", path=f"{k}.py") for k in range(1 + n % 3)), api_id=f"m{n}"),
            user(f"r{n}", *(tool_result(f"t{n}_{k}", "x" * 50) for k in range(1 + n % 3))),
        ]
    return entries


def unmarked(raw: bytes) -> bytes:
    return raw.replace(b',"cache_control":{"type":"ephemeral"}', b"")


def prefix(raw: bytes) -> bytes:
    """The bytes of a body's messages without marks, open at the end."""
    whole = unmarked(raw)
    body = json.loads(whole)
    text = json.dumps(body["messages"], ensure_ascii=False, separators=(",", ":")).encode()
    assert text in whole, "the messages are written as they are read here"
    return text[:-1]


def marked(body: Any) -> list[tuple[int, int]]:
    return [(i, k) for i, one in enumerate(body["messages"]) for k, block in enumerate(one["content"]) if "cache_control" in block]


def test_i5_over_30_turns_the_bytes_before_do_not_move_and_each_request_is_marked_where_the_last_one_was() -> None:
    calls = [call_of(*turns(n)) for n in range(31)]
    system = (Text("Be brief."), Text("Be kind."))
    asked = sent_by(*(Call(request=c.request, send=c.send, model=c.model, system=system) for c in calls))
    places: list[tuple[int, int]] = []
    for before, after in pairwise(asked):
        assert prefix(after.raw).startswith(prefix(before.raw))
        assert [block.get("cache_control") for block in after.body["system"]] == [None, {"type": "ephemeral"}]
        last = marked(before.body)[-1]
        assert last in marked(after.body) and len(marked(after.body)) + 1 <= 4
        places.append(marked(after.body)[-1])
        assert places[-1][0] == len(after.body["messages"]) - 1, "what is new is marked at its end"
    assert len(set(places)) == 30


def test_i5_behind_a_fold_in_the_middle_the_last_place_that_was_written_before_it_is_marked() -> None:
    entries = turns(12)
    calls = [call_of(*entries[: 1 + 2 * n]) for n in range(13)]
    cleared = list(entries)
    cleared[10] = user("r4", *(tool_result(f"t4_{k}", "[Old tool result content cleared]") for k in range(2)))
    asked = sent_by(*calls, call_of(*cleared))
    assert marked(asked[-1].body)[-2] == marked(asked[4].body)[-1] == (8, 0)
    many = user("more", *(Text(f"Line {n}.") for n in range(60)))
    grown = sent_by(call_of(user("u", "Begin.")), call_of(user("u", "Begin."), many))
    assert marked(grown[1].body) == [(0, 0), (0, 60)], "60 blocks are more than the provider looks back"


def test_i5_a_request_that_failed_has_written_nothing_so_the_place_before_it_stays_marked() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    entries, ok = turns(4), Canned(message({"type": "text", "text": "ok"}))
    with Recorder(ok, Canned(error, 529), ok) as server, client_of(server) as client:
        model = AnthropicModel(client, stream=False)
        for count in (3, 5, 5, 7):
            model(call_of(*entries[:count]))
        first, _, again, more = (marked(asked.body) for asked in server.asked)
    assert first[-1] in again and again[-1][0] == 4
    with Recorder(ok, Canned(error, 529), ok) as server, client_of(server) as client:
        model = AnthropicModel(client, stream=False)
        for count in (3, 5, 7):
            model(call_of(*entries[:count]))
        assert first[-1] in marked(server.asked[2].body), "nobody has sent it again before more was said"
    assert len(more) == 3


def test_e1_l1_a_fork_is_sent_with_the_same_edits_but_is_not_compacted_itself() -> None:
    clear: Object = {"type": "clear_thinking_20251015", "keep": "all"}
    edits = ServerEdits((clear, {"type": "compact_20260112"}), ("context-management-2025-06-27", "compact-2026-01-12"))
    entries = (user("u", "x"), assistant("a", "y", api_id="m"), user("q", "Sum up."))
    ask = Ask(
        kind="fork", model="", system="", entries=entries, text="Sum up.", max_tokens=1_000, thinking="inherit", tools="inherit"
    )  # fmt: skip
    ok = message({"type": "text", "text": "ok"})
    with Recorder(Canned(ok), Canned(events(ok))) as server, client_of(server) as client:
        shaped: Any = {
            "stop_sequences": ["END"],
            "output_config": {"effort": "low", "format": {"type": "json_schema"}},
            "tool_choice": {"type": "auto"},
        }
        model = AnthropicModel(client, stream=False, settings=shaped)
        model(call_of(user("u", "x"), edits=edits))
        assert isinstance(model.ask(ask), Answer)
        first, fork = server.asked
    assert first.body["stop_sequences"] == ["END"] and "stop_sequences" not in fork.body
    assert fork.body["output_config"] == {"effort": "low"} and fork.body["tool_choice"] == {"type": "auto"}
    assert fork.body["context_management"] == {"edits": [clear]} and fork.headers["anthropic-beta"] == "context-management-2025-06-27"
    assert marked(fork.body) == [(0, 0)], "what was written is read, and the instruction is marked by nothing"


def test_i5_a_clients_own_marks_stay_where_ours_are_off_and_make_room_where_they_are_not() -> None:
    own = Text("x", {"cache_control": {"type": "ephemeral", "ttl": "1h"}})
    (off,) = sent_by(call_of(user("u", own)), cached=False)
    assert off.body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    (ours,) = sent_by(call_of(user("u", own, Text("y"))), ttl="1h")
    assert [block.get("cache_control") for block in ours.body["messages"][0]["content"]] == [None, {"type": "ephemeral", "ttl": "1h"}]
    (automatic,) = sent_by(call_of(user("u", "x")), settings={"cache_control": {"type": "ephemeral"}})
    assert marked(automatic.body) == [] and automatic.body["cache_control"] == {"type": "ephemeral"}


def test_v1_a_plain_request_goes_to_the_plain_endpoint_without_a_beta_header() -> None:
    (asked,) = sent_by(call_of(user("u", "x"), max_tokens=77))
    assert asked.path == "/v1/messages" and "anthropic-beta" not in asked.headers
    assert asked.body == {
        "model": NAME, "max_tokens": 77, "stream": False,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}],
    }  # fmt: skip


def test_v1_tools_of_another_wire_are_rewritten_and_a_budget_of_thinking_leaves_room_for_an_answer() -> None:
    schema = {"type": "object", "properties": {}}
    tools: tuple[Object, ...] = (
        {"type": "function", "function": {"name": "a", "description": "A.", "parameters": schema}},
        {"name": "b", "input_schema": schema, "strict": True},
        {"type": "web_search_20250305", "name": "web_search"},
    )
    given = call_of(user("u", "x"), max_tokens=500)
    call = Call(request=given.request, send=given.send, model=NAME, tools=tools)
    (asked,) = sent_by(call, cached=False, settings={"thinking": {"type": "enabled", "budget_tokens": 4_000}})
    assert asked.body["tools"] == [{"name": "a", "description": "A.", "input_schema": schema}, *tools[1:]]
    assert asked.body["max_tokens"] == 4_500


def test_e1_e7_edits_go_with_their_headers_as_they_are_given() -> None:
    edits = ServerEdits(({"type": "clear_thinking_20251015", "keep": "all"}, {"type": "compact_20260112"}), ("beta-1", "beta-2"))
    (asked,) = sent_by(call_of(user("u", "x"), edits=edits), betas=["own"])
    assert asked.headers["anthropic-beta"] == "own,beta-1,beta-2"
    assert asked.body["context_management"] == {"edits": list(edits.edits)}


@pytest.mark.parametrize(
    ("name", "settings", "sent"),
    [
        (NAME, {"thinking": {"type": "adaptive", "display": "summarized"}}, {"type": "adaptive", "display": "summarized"}),
        (NAME, {}, {"type": "adaptive"}),
        ("claude-opus-4-8", {}, None),
        ("claude-haiku-5-5", {"thinking": {"type": "disabled"}}, None),
    ],
)
def test_i7_the_drop_setting_is_sent_beside_what_the_model_thinks(name: str, settings: Any, sent: Any) -> None:
    (asked,) = sent_by(call_of(user("u", "x"), name=name, drop_thinking=True), settings=settings)
    if sent is None:
        assert "anthropic-beta" not in asked.headers and asked.body.get("thinking") == settings.get("thinking")
    else:
        assert asked.body["thinking"] == {**sent, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
        assert asked.headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"


def test_i7_what_the_provider_says_it_dropped_is_told_and_never_sent_back() -> None:
    dropped = [{"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}]
    whole = message({"type": "text", "text": "ok"}, input_transformations=dropped)
    for canned, stream in ((Canned(whole), False), (Canned(events(whole)), True)):
        found = answered(canned, stream=stream)
        assert found.told["input_transformations"] == dropped and found.extra == {}


def test_e7_l10_compaction_blocks_go_back_exactly_with_the_header_of_their_kind() -> None:
    signed = {"type": "compaction", "content": "So far.", "signature": "s", "tool_changes": []}
    (asked,) = sent_by(call_of(user("u", Text("x")), assistant("a", "y", api_id="m"), user("v", "z")))
    assert "anthropic-beta" not in asked.headers
    (asked,) = sent_by(call_of(user("s", decode_block(signed), Text("Go on."))), cached=False)
    assert asked.headers["anthropic-beta"] == "compact-2026-09-04" and asked.body["messages"][0]["content"][0] == signed
    whole = message({"type": "compaction", "content": "So far.", "encrypted_content": None}, {"type": "text", "text": "ok"})
    stream = events(whole)
    stream[2]["content_block"] = {"type": "compaction", "content": None}
    stream.insert(
        3,
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": "So far.", "encrypted_content": None}},
    )
    plain, streamed = answered(Canned(whole), stream=False), answered(Canned(stream))
    assert plain == streamed and plain.blocks[0].data == {"type": "compaction", "content": "So far."}
    (asked,) = sent_by(call_of(user("u", "x"), assistant("a", *plain.blocks, api_id="m"), user("v", "z")), cached=False)
    assert asked.headers["anthropic-beta"] == "compact-2026-01-12" and asked.body["messages"][1]["content"][0] == plain.blocks[0].data


class Wire:
    def reference(self, id: str) -> Object:
        return {"ref": id}

    def block(self, deletes: Any) -> Object:
        return {"type": "deletes", "refs": list(deletes)}


def test_m3_edits_of_the_cache_stand_where_they_were_first_sent_as_long_as_they_are_sent() -> None:
    entries = turns(3)
    one, two = EditsBlock("r1", ("t0_0",)), EditsBlock("r2", ("t1_0",))
    calls = [call_of(*entries[:5], cache_edits=(one,)), call_of(*entries, cache_edits=(one, two)), call_of(*entries)]
    first, second, third = (asked.body["messages"] for asked in sent_by(*calls, cache_edits=Wire(), cached=False))
    assert first[4]["content"][-1] == {"type": "deletes", "refs": ["t0_0"]} and second[:5] == first
    assert second[6]["content"][-1] == {"type": "deletes", "refs": ["t1_0"]} and first[2]["content"][0]["ref"] == "t0_0"
    assert not any(block["type"] == "deletes" for one in third for block in one["content"])
    with anthropic.Anthropic(api_key="k") as client, pytest.raises(ValueError, match="cache_edits"):
        AnthropicModel(client)(calls[0])


def test_v5_a_system_message_inside_stays_one_where_the_model_has_it_and_else_is_said_by_the_user() -> None:
    reminder = Message("system", (Text("Remember."),), extra={"clear_at": "next_user_message"})
    inside = Request((), (Message("user", (Text("x"),)), reminder), ())
    (has,) = sent_by(Call(request=inside, send=Send(source="main"), model="claude-fable-5-2"), cached=False)
    assert has.body["messages"][1] == {
        "role": "system",
        "content": [{"type": "text", "text": "Remember."}],
        "clear_at": "next_user_message",
    }
    assert has.headers["anthropic-beta"] == "mid-conversation-system-clear-at-2026-08-21"
    (lacks,) = sent_by(Call(request=inside, send=Send(source="main"), model="claude-sonnet-4-6"), cached=False)
    assert lacks.body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "Remember."}]}]
    assert "anthropic-beta" not in lacks.headers
    names = ("claude-opus-4-7", "claude-opus-4-8", "claude-opus-5-5", "claude-mythos-preview", "claude-haiku-4-5", "gpt-5.5")
    assert [has_mid_system(name) for name in names] == [False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("name", "lowest"),
    [
        ("claude-fable-5-2", {"output_config": {"effort": "low"}}), ("claude-opus-5-5", {"output_config": {"effort": "low"}}),
        ("claude-opus-5", {"thinking": {"type": "disabled"}}), ("us.anthropic.claude-haiku-5-5-v1:0", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5-5", {"thinking": {"type": "between_tools"}, "output_config": {"effort": "low"}}),
        ("claude-opus-4-8", {}), ("claude-sonnet-4-5-20250929", {}), ("deepseek-chat", {}),
    ],
)  # fmt: skip
def test_l1_each_model_has_its_own_way_to_think_least(name: str, lowest: Any) -> None:
    assert lowest_thinking(name) == lowest


# --- what goes wrong

DIMENSIONS = {"error_code": "image_dimensions_too_large", "max_side_length_pixels": 2000, "paths": ["messages.2.content.1"]}
MANY = (
    "messages.2.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: "
    "2000 pixels"
)
BOUND = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
ROWS: list[tuple[int, str, str, Any, str, dict[str, Any]]] = [
    (400, "invalid_request_error", "prompt is too long: 211180 tokens > 200000 maximum", None, "too_long", {"gap": 11_180}),
    (400, "invalid_request_error", "Prompt is too long", None, "too_long", {"gap": None}),
    (400, "invalid_request_error", "Input is too long for requested model.", None, "too_long", {}),
    (400, "invalid_request_error", "capability_rejected: prompt_too_long", None, "too_long", {}),
    (
        400, "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, decrease input length or `max_tokens` and try again",
        None, "output_too_large", {"actual": 199_759, "max_tokens": 8_192, "limit": 200_000},
    ),
    (413, "request_too_large", "Request exceeds the maximum size", None, "bytes", {}),
    (413, "invalid_request_error", "Too large.", {"error_code": "request_body_too_large_after_decoding"}, "bytes", {}),
    (400, "invalid_request_error", MANY, DIMENSIONS, "media", {"places": ((2, 1),), "max_side": 2_000}),
    (
        400, "invalid_request_error",
        "messages.4.content.1.tool_result.content.0.image.source.base64: image exceeds 5 MB maximum: 15908784 bytes > 5242880 bytes",
        None, "media", {"places": ((4, 1, 0),)},
    ),
    (429, "rate_limit_error", "This request would exceed your rate limit of 400,000 input tokens per minute.", None, "transient", {}),
    (429, "rate_limit_error", "Spend limit.", {"error_code": "enforced_spend_limit_reached"}, "other", {}),
    (529, "overloaded_error", "Overloaded", None, "transient", {}),
    (500, "api_error", "Internal server error", None, "transient", {}),
    (504, "timeout_error", "Timed out.", None, "transient", {}),
    (529, "overloaded_error", "Compaction is temporarily unavailable.", {"error_code": "compaction_unavailable"}, "transient", {}),
    (400, "invalid_request_error", "messages: text content blocks must be non-empty", None, "other", {}),
    (400, "invalid_request_error", BOUND, None, "other", {}),
    (400, "invalid_request_error", "A maximum of 4 blocks with cache_control may be provided. Found 5.", None, "other", {}),
    (401, "authentication_error", "invalid x-api-key", None, "other", {}),
    (404, "not_found_error", "model: no-such", None, "other", {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "kind", "text", "details", "why", "told"), ROWS, ids=[f"{row[0]}-{row[4]}-{i}" for i, row in enumerate(ROWS)]
)
def test_v2_each_refusal_comes_through_the_sdks_errors_as_what_it_is(
    status: int, kind: str, text: str, details: Any, why: str, told: dict[str, Any]
) -> None:
    error = {"type": kind, "message": text, **({"details": details} if details else {})}
    body = {"type": "error", "error": error, "request_id": "req_7"}
    found = answered(Canned(body, status, {"retry-after": "4", "request-id": "req_7"}))
    assert isinstance(found, Rejection) and (found.why, found.status, found.type) == (why, status, kind)
    assert found.message == f"{text} (request req_7)" and found.retry_after == 4.0
    assert {key: getattr(found, key) for key in told} == told


def test_v2_an_answer_without_a_body_and_one_that_is_no_json() -> None:
    assert answered(Canned(b"", 413)).why == "bytes"
    assert answered(Canned(b"", 400)).why == "too_long", "some gateways say nothing more of a prompt that is too long"
    assert answered(Canned(b"<html>Bad gateway</html>", 502, {"content-type": "text/html"})).why == "transient"
    page = answered(Canned(b"<html>Sign in</html>", 200, {"content-type": "text/html"}), stream=False)
    assert (page.why, page.status) == ("other", 200) and "Sign in" in page.message


MESSAGE = message({"type": "text", "text": "A long answer."})


@pytest.mark.parametrize("stream", [True, False])
def test_v2_what_the_network_does_is_a_refusal_that_may_pass(stream: bool) -> None:
    canned = Canned(events(MESSAGE)[:4], cut=True) if stream else Canned(MESSAGE, cut=True)
    assert answered(canned, stream=stream).why == "transient"
    assert answered(Canned(MESSAGE, wait=0.4), stream=stream, timeout=0.1).why == "transient"
    with Recorder(Canned()) as server:
        nobody = server.url
    with anthropic.Anthropic(base_url=nobody, api_key="k") as client:
        assert end_of(AnthropicModel(client, stream=stream)(call_of(user("u", "x")))).why == "transient"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "transient"), ({"type": "api_error", "message": "Internal"}, "transient"),
        ({"type": "invalid_request_error", "message": "prompt is too long: 211180 tokens > 200000 maximum"}, "too_long"),
        ({"type": "invalid_request_error", "message": "tools.0: no"}, "other"),
    ],
)  # fmt: skip
def test_v2_an_error_inside_a_stream_that_began_well_is_known_by_its_type(error: Any, why: str) -> None:
    found = answered(Canned([*events(MESSAGE)[:4], {"type": "error", "error": error}]))
    assert (found.why, found.status, found.type) == (why, 200, error["type"])


def test_v2_a_stream_that_stops_short_or_is_garbled_is_broken() -> None:
    assert answered(Canned(events(MESSAGE)[:-2])).why == "transient"
    garbled = b'event: content_block_delta\ndata: {"type": "content_bl\n\n'
    assert answered(Canned(garbled, headers={"content-type": "text/event-stream"})).why == "transient"


def test_a_mistake_of_the_callers_is_raised() -> None:
    with anthropic.Anthropic(api_key="k", base_url="http://127.0.0.1:9") as client:
        with pytest.raises(TypeError, match="no_such_argument"):
            AnthropicModel(client, settings={"no_such_argument": 1})(call_of(user("u", "x")))
        with pytest.raises(TypeError, match="AsyncAnthropicModel takes an async client"):
            AsyncAnthropicModel(client)
        with pytest.raises(ValueError, match="no model is named"):
            AnthropicModel(client).count([user("u", "x")])


def test_a_large_output_that_the_sdk_would_not_wait_for_is_streamed_and_put_together() -> None:
    found = answered(Canned(events(MESSAGE)), stream=False, call=call_of(user("u", "x"), max_tokens=64_000))
    assert isinstance(found, Reply) and found.blocks == (Text("A long answer."),)


# --- stopping


def test_q4_leaving_a_run_in_mid_stream_closes_the_connection() -> None:
    with Recorder(Canned(events(MESSAGE)[:5], hold=True)) as server, client_of(server) as client:
        agent = Agent(Driver(setup=make_setup(NAME)), model=AnthropicModel(client), name=NAME)
        run = agent.run("Go.")
        assert any(isinstance(event, Streamed) for event in run)
        run.close()  # type: ignore[attr-defined]
        assert server.gone.wait(5), "the provider goes on writing to somebody who has left"
        kept = [block.text for entry in agent.driver.log.entries() for block in entry.blocks if isinstance(block, Text)]
    assert kept == ["Go.", "A long"]


def test_q4_leaving_an_async_run_between_two_pieces_closes_the_connection() -> None:
    async def talk(url: str) -> None:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
            agent = AsyncAgent(AsyncDriver(setup=make_setup(NAME)), model=AsyncAnthropicModel(client), name=NAME)
            async for event in agent.run("Go."):
                if isinstance(event, Streamed):
                    agent.stop()
            assert await anyio.to_thread.run_sync(server.gone.wait, 5), "while the client is open still"

    with Recorder(Canned(events(MESSAGE)[:5], hold=True)) as server:
        anyio.run(talk, server.url)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_q4_cancelling_a_task_in_mid_stream_closes_the_connection(backend: str) -> None:
    async def talk(url: str) -> list[Any]:
        seen: list[Any] = []
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
            agent = AsyncAgent(AsyncDriver(setup=make_setup(NAME)), model=AsyncAnthropicModel(client), name=NAME)
            with anyio.move_on_after(5) as scope:
                async for event in agent.run("Go."):
                    seen.append(event)
                    if isinstance(event, Streamed):
                        scope.deadline = anyio.current_time() + 0.1  # while the next piece is waited for
            assert scope.cancelled_caught
        return seen

    with Recorder(Canned(events(MESSAGE)[:4], hold=True)) as server:
        seen = anyio.run(talk, server.url, backend=backend)
        assert server.gone.wait(5)
    assert any(isinstance(event, Streamed) for event in seen) and not any(isinstance(event, Ended) for event in seen)
