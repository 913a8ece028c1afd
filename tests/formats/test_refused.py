"""What is known and not read, and the words for what is not known."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from pathlib import Path

import pytest

from fivefold.errors import InputError
from fivefold.formats import refused
from fivefold.formats.registry import READERS
from fivefold.formats.source import Source

FORMATS = ("claude-code", "codex")


def stored(path: Path, content: str) -> Source:
    file = path / "file"
    file.write_text(content, encoding="utf-8")
    return Source(file)


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.mark.parametrize(
    ("content", "name", "way_out"),
    [
        (lines({"v": 1, "agent": "claude-code", "cli_version": "0.8", "type": "user"}), "Entire compact transcript", "full.jsonl"),
        (lines({"display": "hi", "pastedContents": {}, "timestamp": 1, "project": "/p"}), "prompt history", "~/.claude/projects"),
        (lines({"session_id": "s", "ts": 1, "text": "hi"}), "prompt history", "~/.codex/sessions"),
        (json.dumps([{"ts": 1, "type": "say", "say": "text", "text": "x"}]), "Cline interface log", "api_conversation_history.json"),
        (json.dumps({"requesterUsername": "u", "responderUsername": "r", "requests": []}, indent=1), "editor chat", "not read"),
        (json.dumps({"permissions": {"allow": []}, "model": "opus"}, indent=1), "settings", "session files"),
        (json.dumps([{"role": "user", "content": [{"text": "hi"}]}], indent=1), "Bedrock Converse", "content parts name their type"),
        (
            json.dumps({"messages": [{"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": []}}]}]}, indent=1),
            "Bedrock Converse",
            "content parts name their type",
        ),
        (
            json.dumps({"object": "list", "data": [{"object": "thread.message", "role": "user", "content": []}]}, indent=1),
            "OpenAI Assistants",
            "Responses or Chat requests",
        ),
        (
            lines({"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}]}),
            "Vercel AI SDK",
            "request.body",
        ),
        (json.dumps([{"type": "user", "uuid": "u", "parentUuid": None, "message": {}}]), "list of session lines", "jq -c '.[]'"),
        (json.dumps([{"type": "event_msg", "timestamp": "t", "payload": {"type": "x"}}], indent=1), "list of session lines", "jq -c '.[]'"),
        ("> do it\n\n⏺ Bash(ls)\n  ⎿  Waiting…\n  ⎿  a.txt\n", "terminal log", "session file"),
    ],
)
def test_z3_a_known_kind_is_refused_by_name_with_the_way_out(tmp_path: Path, content: str, name: str, way_out: str) -> None:
    source = stored(tmp_path, content)
    kind = refused.refusal(source)
    assert kind is not None and kind.name == name
    said = refused.explain(source, FORMATS)
    assert way_out in said
    assert said.endswith("Read are: claude-code, codex")


def test_z3_a_database_is_refused_by_name_before_it_is_called_binary(tmp_path: Path) -> None:
    file = tmp_path / "opencode.db"
    with sqlite3.connect(file) as database:
        database.execute("create table session (id text)")
    source = Source(file)
    assert refused.is_database(source)
    assert "opencode export" in refused.explain(source, FORMATS)


TEXT = {"type": "text", "text": {"value": "hi", "annotations": []}}
CALL = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}


@pytest.mark.parametrize(
    "value",
    [
        [{"role": "user", "content": [{"text": "hi"}]}, {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f"}}]}],
        {"system": [{"text": "s"}], "messages": [{"role": "user", "content": [{"text": "hi"}]}]},
        [
            {"object": "thread.message", "role": "user", "content": [TEXT]},
            {"object": "thread.message", "role": "assistant", "content": [TEXT]},
        ],
        {"object": "list", "data": [{"object": "thread.message", "role": "user", "content": [TEXT]}]},
        [
            {"role": "system", "content": "s"},
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
            {"role": "assistant", "content": [CALL]},
        ],
        [{"role": "user", "content": "x"}, {"role": "tool", "content": [{**CALL, "type": "tool-result", "output": {}}]}],
        [{"type": "user", "uuid": "u", "parentUuid": None, "timestamp": "t", "message": {"role": "user", "content": "x"}}],
        [{"type": "response_item", "timestamp": "t", "payload": {"type": "message", "role": "user", "content": []}}],
        [{"type": "message", "id": "a", "parentId": None, "timestamp": "t", "message": {"role": "toolResult", "toolCallId": "c"}}],
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_z3_lists_that_only_look_like_one_that_is_read_are_refused_by_name(tmp_path: Path, value: object, indent: int | None) -> None:
    source = stored(tmp_path, json.dumps(value, indent=indent))
    assert [reader.NAME for reader in READERS if reader.recognises(source)] == []
    assert refused.refusal(source) is not None


K8S = {"kind": "Event", "apiVersion": "v1", "source": {"component": "kubelet"}, "timestamp": "t", "message": "Pulled"}


@pytest.mark.parametrize(
    "content",
    [
        lines(K8S, {**K8S, "source": "kubelet"}),
        json.dumps({"kind": "List", "items": [{**K8S, "source": "kubelet"}]}, indent=1),
        lines({"type": "event_msg", "payload": {"text": "door opened"}}, {"type": "event_msg", "payload": {"text": "door closed"}}),
    ],
)
def test_z3_logs_of_something_else_are_claimed_by_no_reader(tmp_path: Path, content: str) -> None:
    source = stored(tmp_path, content)
    assert [reader.NAME for reader in READERS if reader.recognises(source)] == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("Dear diary,\n\ttoday", "text that begins 'Dear diary, today'"),
        (lines({"name": "a", "size": 1}, {"name": "b"}), "JSON lines that are no known transcript, with the keys 'name', 'size'"),
        (json.dumps({f"k{n}": n for n in range(11)}, indent=1), "'k7' and 3 more"),
        (json.dumps([{"a": 1}, {"a": 2}], indent=1), "a list of 2, with the keys 'a'"),
        ("[\n1,\n2\n]", "without objects that have keys"),
    ],
)
def test_z3_an_unknown_file_is_named_by_what_it_looks_like(tmp_path: Path, content: str, said: str) -> None:
    source = stored(tmp_path, content)
    assert refused.refusal(source) is None
    assert said in refused.explain(source, FORMATS)


def test_z3_an_unknown_archive_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x", "y")
    assert "zip archive" in refused.explain(Source(tmp_path / "a.zip"), FORMATS)


def test_h4_what_is_shown_is_short_and_obeys_no_terminal_codes(tmp_path: Path) -> None:
    said = refused.explain(stored(tmp_path, "\x1b[2Jboo " + "x" * 5000), FORMATS)
    assert "\x1b" not in said
    assert len(said) < 200


@pytest.mark.parametrize(
    ("data", "fault"),
    [(b"", "empty"), (b"  \n", "empty"), (b"\x00\x01\x02", "binary"), (b"\xff\xfea\x00", "UTF-16"), (b'{\n "a": \n', "not JSON")],
)
def test_z3_an_empty_binary_or_damaged_file_is_an_error_of_its_own(tmp_path: Path, data: bytes, fault: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises(InputError, match=fault):
        refused.explain(Source(file), FORMATS)
