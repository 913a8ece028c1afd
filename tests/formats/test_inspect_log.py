"""The reader of Inspect logs, one document or a zip."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fivefold.core.entries import Usage
from fivefold.core.messages import (
    Document,
    Image,
    Opaque,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
)
from fivefold.formats import atif, inspect_log, inspect_zip, mini_swe, opencode, openhands, swe_agent
from fivefold.formats.source import Source

from .mutate import loose, only_input_errors, refused, written

DATA = Path(__file__).parents[1] / "data" / "inspect"
CALLS, IMAGES, ZIP = DATA / "tool_calls.json", DATA / "images.json", DATA / "two_samples.eval"
HEADER: dict[str, Any] = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m"}, "plan": {}}


def _zip(path: Path, members: dict[str, Any], method: int = zipfile.ZIP_DEFLATED) -> Source:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, value in members.items():
            archive.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return Source(path)


def _sample(*messages: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"id": 1, "epoch": 1, "messages": list(messages), **keys}


def test_z3_it_is_recognised_by_its_content_and_by_no_other_reader(tmp_path: Path) -> None:
    for path in (CALLS, IMAGES, ZIP):
        assert inspect_log.recognises(Source(path))
        assert not any(m.recognises(Source(path)) for m in (swe_agent, mini_swe, openhands, atif, opencode))
    assert not inspect_log.recognises(_zip(tmp_path / "other.zip", {"a.txt": b"a"}))


def test_z3_every_sample_is_a_conversation() -> None:
    transcript = inspect_log.read(Source(CALLS))
    assert [(c.kind, c.name, len(c.log)) for c in transcript.conversations] == [
        ("sample", "sample 59, epoch 1", 8),
        ("sample", "sample 59, epoch 2", 10),
    ]
    assert transcript.main.log.head.model == "anthropic/claude-3-5-sonnet-20241022"
    assert loose(transcript.meta)["eval"]["task"] == "inspect_evals/luce_intercode_ctf"


def test_z3_calls_and_answers_are_blocks() -> None:
    entries = list(inspect_log.read(Source(CALLS)).main.log.entries())
    assert [e.kind for e in entries] == ["system", "user", "assistant", "user", "assistant", "user", "assistant", "user"]
    assert entries[2].blocks[-1] == ToolUse("toolu_01PksUAJuenA3pv15uXuMAHm", "bash", {"cmd": "cat email-export.eml"})
    answer = entries[3].blocks[0]
    assert isinstance(answer, ToolResult) and answer.tool_use_id == "toolu_01PksUAJuenA3pv15uXuMAHm"


def test_t2_usage_time_and_tools_come_from_the_model_calls() -> None:
    log = inspect_log.read(Source(CALLS)).main.log
    answers = [e for e in log.entries() if e.kind == "assistant"]
    assert [a.usage for a in answers] == [
        Usage(input=1018, output=104),
        Usage(input=5, cache_write=3739, output=222),
        Usage(input=5, cache_write=251, cache_read=3739, output=157),
    ]
    assert answers[0].time == pytest.approx(1742940414.54, abs=0.1)
    assert [tool["name"] for tool in log.head.tools] == ["bash", "python"]
    assert loose(log.head.tools)[1]["description"].startswith("Use the python function"), "its text stood among the attachments"


def test_t2_a_cache_inside_the_input_and_thinking_beside_the_output_are_told_by_the_total(tmp_path: Path) -> None:
    inside = {"input_tokens": 100, "output_tokens": 10, "input_tokens_cache_read": 60, "total_tokens": 110}
    beside = {"input_tokens": 100, "output_tokens": 10, "reasoning_tokens": 30, "total_tokens": 140}
    samples = [_sample({"role": "assistant", "content": "a"}, output={"usage": usage}) for usage in (inside, beside)]
    transcript = inspect_log.read(written(tmp_path, {**HEADER, "samples": samples}))
    assert [e.usage for c in transcript.conversations for e in c.log.entries()] == [
        Usage(input=40, cache_read=60, output=10),
        Usage(input=100, output=40, thinking=30),
    ]


def test_z3_a_users_message_that_a_solver_wrote_is_the_harness_speaking() -> None:
    entries = list(inspect_log.read(Source(CALLS)).conversations[1].log.entries())
    assert [e.meta for e in entries if e.kind == "user" and isinstance(e.blocks[0], Text)] == [False, True]


def test_z3_attachments_are_put_back_and_missing_ones_are_named(tmp_path: Path) -> None:
    image = list(inspect_log.read(Source(IMAGES)).main.log.entries())[1].blocks[1]
    assert isinstance(image, Image) and image.source["media_type"] == "image/png" and str(image.source["data"]).startswith("iVBORw0KGgo")
    call = {"id": "c", "function": "f", "arguments": {"text": "attachment://aa"}}
    sample = _sample(
        {"role": "user", "content": "attachment://bb"},
        {"role": "assistant", "content": [], "tool_calls": [call]},
        attachments={"aa": "long"},
    )
    transcript = inspect_log.read(written(tmp_path, {**HEADER, "samples": [sample]}))
    assert list(transcript.main.log.entries())[1].blocks == (ToolUse("c", "f", {"text": "long"}),)
    assert [bad.why for bad in transcript.bad_lines] == ["sample 1: 1 attachments are not in the log, the first is attachment://bb"]


def test_z3_every_kind_of_content_is_read(tmp_path: Path) -> None:
    audio: dict[str, Any] = {"type": "audio", "audio": "x.mp3", "format": "mp3"}
    parts = [
        {"type": "reasoning", "reasoning": "hm", "signature": "s"},
        {"type": "reasoning", "reasoning": "sealed", "redacted": True},
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "tool_type": "web_search", "id": "w", "name": "search", "arguments": "{}", "result": "r"},
        {"type": "document", "document": "data:application/pdf;base64,QQ==", "mime_type": "application/pdf"},
        {"type": "image", "image": "https://example.org/a.png"},
        audio,
    ]
    error = {"role": "tool", "content": "", "tool_call_id": "c", "error": {"type": "timeout", "message": "too slow"}}
    transcript = inspect_log.read(written(tmp_path, {**HEADER, "samples": [_sample({"role": "assistant", "content": parts}, error)]}))
    first, second = transcript.main.log.entries()
    assert first.blocks == (
        Thinking("hm", "s"),
        RedactedThinking("sealed"),
        Text("hi"),
        ServerToolUse("w", "search", {}),
        ServerToolResult("w", "r"),
        Document({"type": "base64", "media_type": "application/pdf", "data": "QQ=="}),
        Image({"type": "url", "url": "https://example.org/a.png"}),
        Opaque(audio),
    )
    assert second.blocks == (ToolResult("c", "too slow", True),)


# --- the zip


def test_z3_a_zip_gives_the_same_as_the_document(tmp_path: Path) -> None:
    document = json.loads(CALLS.read_text())
    header = {key: value for key, value in document.items() if key != "samples"}
    members = {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in document["samples"]}
    zipped = inspect_log.read(_zip(tmp_path / "log.eval", {"header.json": header, **members}))
    plain = inspect_log.read(Source(CALLS))
    assert zipped.meta == plain.meta
    assert [list(c.log.records()) for c in zipped.conversations] == [list(c.log.records()) for c in plain.conversations]
    assert [c.log.head for c in zipped.conversations] == [c.log.head for c in plain.conversations]


def test_z3_a_recorded_zip_is_read_with_usage_and_times() -> None:
    transcript = inspect_log.read(Source(ZIP))
    assert [(c.name, len(c.log)) for c in transcript.conversations] == [("sample 5, epoch 1", 2), ("sample 2, epoch 1", 2)]
    answer = list(transcript.main.log.entries())[1]
    assert answer.usage == Usage(input=102, output=190)
    assert answer.time == pytest.approx(1758629403.058, abs=0.001)
    assert transcript.meta["status"] == "success"


def test_z3_a_run_that_was_cut_off_is_read_from_its_journal(tmp_path: Path) -> None:
    start = {"version": 2, "eval": {"model": "m"}, "plan": {}}
    sample = _sample({"role": "user", "content": "q"})
    transcript = inspect_log.read(_zip(tmp_path / "a.eval", {"_journal/start.json": start, "samples/1_epoch_1.json": sample}))
    assert transcript.main.log.head.model == "m"


def test_z3_a_sample_in_chunks_is_put_together(tmp_path: Path) -> None:
    shell = {"id": 1, "epoch": 1, "message_refs": [[0, 1], [2, 4]]}
    said = [{"role": "user", "content": f"m{i}"} for i in range(3)]
    last = {"role": "user", "content": "attachment://1"}
    prefix = "samples/1_epoch_1"
    members = {
        "header.json": HEADER,
        f"{prefix}/sample.json": shell,
        f"{prefix}/messages/2.json": [said[2], last],
        f"{prefix}/messages/0.json": said[:2],
        f"{prefix}/attachments/0.json": ["no", "long"],
        f"{prefix}/events/0.json": [{"event": "info"}],
    }
    (conversation,) = inspect_log.read(_zip(tmp_path / "a.eval", members)).conversations
    assert [b.text for e in conversation.log.entries() for b in e.blocks if isinstance(b, Text)] == ["m0", "m2", "long"]


def test_h4_a_member_that_unpacks_too_big_is_passed_over_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_zip, "MAX_MEMBER", 2000)
    bomb = _sample({"role": "user", "content": "0" * 1_000_000})
    source = _zip(
        tmp_path / "a.eval",
        {"header.json": HEADER, "samples/1_epoch_1.json": bomb, "samples/2_epoch_1.json": _sample({"role": "user", "content": "q"})},
    )
    assert source.size < 3000
    transcript = inspect_log.read(source)
    assert len(transcript.conversations) == 1
    assert [bad.why for bad in transcript.bad_lines] == ["samples/1_epoch_1.json unpacks to more than the limit of 2,000 bytes"]


def test_h4_a_zip_that_unpacks_too_big_in_all_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_zip, "MAX_TOTAL", 5000)
    samples = {f"samples/{i}_epoch_1.json": _sample({"role": "user", "content": "0" * 1000}) for i in range(9)}
    assert "unpacks to more than the limit of 5,000 bytes" in refused(
        inspect_log.read, _zip(tmp_path / "a.eval", {"header.json": HEADER, **samples})
    )


def test_h4_ranges_that_repeat_messages_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_zip, "MAX_MESSAGES", 50)
    prefix = "samples/1_epoch_1"
    members = {
        "header.json": HEADER,
        f"{prefix}/sample.json": {"message_refs": [[0, 9]] * 99},
        f"{prefix}/messages/0.json": [{"role": "user"}] * 9,
    }
    assert "more than 50 messages" in refused(inspect_log.read, _zip(tmp_path / "a.eval", members))


def test_z2_a_compression_that_cannot_be_unpacked_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    _zip(path, {"header.json": HEADER, "samples/1_epoch_1.json": _sample({"role": "user", "content": "q"})}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = 0
        while (found := data.find(mark, start)) >= 0:
            data[found + offset : found + offset + 2] = (99).to_bytes(2, "little")
            start = found + 4
    path.write_bytes(data)
    assert "inspect log convert" in refused(inspect_log.read, Source(path))


def test_z3_a_broken_member_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    members = {
        "header.json": HEADER,
        "samples/1_epoch_1.json": b"{broken",
        "samples/2_epoch_1.json": _sample({"role": "user", "content": "q"}),
    }
    transcript = inspect_log.read(_zip(tmp_path / "a.eval", members))
    assert len(transcript.conversations) == 1
    assert [(bad.line, bad.why.split(":")[0]) for bad in transcript.bad_lines] == [(2, "samples/1_epoch_1.json")]


def test_z2_a_log_without_messages_is_refused_by_name(tmp_path: Path) -> None:
    assert "inspect" in refused(inspect_log.read, written(tmp_path, {**HEADER, "samples": []}))


def test_z3_damaged_copies_give_input_errors_and_nothing_else(tmp_path: Path) -> None:
    assert only_input_errors(inspect_log.read, CALLS, tmp_path, 150, recognises=inspect_log.recognises) > 20
    assert only_input_errors(inspect_log.read, IMAGES, tmp_path, 50, recognises=inspect_log.recognises) > 5


def test_z3_damaged_zips_give_input_errors_and_nothing_else(tmp_path: Path) -> None:
    assert only_input_errors(inspect_log.read, ZIP, tmp_path, 200, recognises=inspect_log.recognises) > 5
