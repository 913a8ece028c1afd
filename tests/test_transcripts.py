"""Every recorded session: read, counted, made legal, written, read again (Z3, I1, K1)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from fivefold.core.entries import SHOWN_AS
from fivefold.core.repair import outgoing
from fivefold.core.transcript import Transcript
from fivefold.core.view import view_of
from fivefold.errors import UnknownFormatError
from fivefold.formats.registry import READERS, read_transcript, reader_of
from fivefold.formats.source import Source
from fivefold.report.build import Options, call_count, inspect, message_count
from fivefold.store.jsonl import read_session, write_session
from tests.build import refused
from tests.corpus import Sample, refused_samples, samples

EXPLAINED: dict[str, tuple[int, int, str]] = {
    "aider/aider--chat-history.md": (-1, 0, "an editor's mode line in front of the first turn is no message"),
    "aider/aider--complex-change.md": (-1, 0, "the page's front matter is no message"),
    "claude_code/entire-cli--5504c1-0.jsonl": (-1, 0, "an API error that the harness wrote as assistant text is a note"),
    "claude_code/entire-cli--5c5cb6-0.jsonl": (-1, 0, "'No response requested.', written by the harness, is a note"),
    "claude_code/entire-cli--8cfa91-0.jsonl": (-1, 0, "the same"),
    "claude_code/entire-cli--d0161e-0.jsonl": (-1, 0, "the same"),
    "claude_code/oh-my-posh--d84718-3.jsonl": (-2, 0, "two usage-limit messages of the harness are notes"),
    "codex/cyspbot--0e818203.jsonl": (-1, 0, "an inter-agent metadata line has no content"),
    "codex/cyspbot--823471e4.jsonl": (-4, 0, "four such lines"),
    "copilot_cli/agentv--6a6787-3.jsonl": (-1, 0, "the system prompt stands in the head"),
    "copilot_cli/agentv--d88be7-0.jsonl": (-4, 0, "the system prompt and its repeats stand in the head"),
    "openai_chat/software-agent-sdk--litellm-proxy-anthropic-claude-sonnet-4-202505.json": (
        1,
        1,
        "the response in the log is a message, with a call",
    ),
    "openai_chat/software-agent-sdk--litellm-proxy-deepseek-deepseek-chat-175701507.json": (
        2,
        1,
        "the responses of two logs, one with a call",
    ),
    "openhands/openhands--examples-output.jsonl": (-5, 0, "three recall queries no model saw, two empty recall answers"),
    "pi/pi-mono--before-compaction.jsonl": (-13, 0, "13 empty responses, aborted or failed, are notes"),
    "pi/pi-mono--large-session.jsonl": (-14, 0, "14 empty responses, aborted or failed, are notes"),
}
"""Where an independent count of messages and tool calls differs from ours: by how much, and why."""

SAMPLES = samples()
each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=[s.slug for s in SAMPLES])
_read: dict[Path, Transcript] = {}


def read(sample: Sample) -> Transcript:
    if sample.path not in _read:
        _read[sample.path] = read_transcript(sample.path)
    return _read[sample.path]


@each_sample
def test_z3_right_format_and_no_other_reader_claims_it(sample: Sample) -> None:
    source = Source(sample.path)
    claims = [reader.NAME for reader in READERS if reader.recognises(source)]
    if sample.format is not None:
        assert claims[:1] == [sample.format]
    assert read(sample).format == reader_of(source).NAME


@each_sample
def test_z3_ids_are_unique_and_places_are_told(sample: Sample) -> None:
    for conversation in read(sample).conversations:
        entries = list(conversation.log.entries())
        assert len({entry.id for entry in entries}) == len(entries)
        assert all(entry.line is not None and entry.line > 0 for entry in entries)


@each_sample
def test_i1_the_view_is_legal_after_repair(sample: Sample) -> None:
    for conversation in read(sample).conversations:
        foreign = conversation.log.head.wire != "anthropic"
        request = outgoing(list(view_of(conversation.log).entries()), foreign=foreign)
        if request.messages:
            assert refused(request.messages) == []


@each_sample
def test_k1_read_write_read_gives_the_same_view(sample: Sample, tmp_path: Path) -> None:
    for i, conversation in enumerate(read(sample).conversations):
        path = tmp_path / f"{i}.jsonl"
        write_session(path, conversation.log, read(sample).other)
        again = read_session(path)
        assert again.log == conversation.log
        assert view_of(again.log) == view_of(conversation.log)
        assert [(o.line, o.raw) for o in again.other] == [(o.line, o.raw) for o in read(sample).other]


@each_sample
def test_z2_inspect_reports_every_file(sample: Sample) -> None:
    transcript = read(sample)
    report = inspect(transcript, Options(window=200_000)).report
    assert report.schema == "fivefold.inspect/1"
    assert report.entries == sum(message_count(c.log) for c in transcript.conversations)
    assert report.tool_calls == sum(call_count(c.log) for c in transcript.conversations)
    assert abs(sum(part.tokens for part in report.by_kind.values()) - report.tokens.used) <= max(20, report.tokens.used // 100)
    view = [entry for entry in view_of(transcript.main.log).entries() if entry.kind in SHOWN_AS]
    assert report.view_entries == len(view)
    assert msgspec.json.decode(msgspec.json.encode(report))["format"] == transcript.format


def test_z3_counts_agree_with_an_independent_reader_or_the_difference_is_explained() -> None:
    counted = [sample for sample in SAMPLES if sample.messages is not None]
    off = {}
    for sample in counted:
        logs = [conversation.log for conversation in read(sample).conversations]
        messages, calls = sum(map(message_count, logs)), sum(map(call_count, logs))
        if (messages, calls) != (sample.messages, sample.tool_calls):
            off[sample.slug] = (messages - (sample.messages or 0), calls - (sample.tool_calls or 0))
    assert off == ({slug: (m, c) for slug, (m, c, _) in EXPLAINED.items()} if counted else {})


@pytest.mark.parametrize("path", refused_samples(), ids=lambda path: path.name)
def test_z3_kinds_that_are_not_read_are_refused_by_name(path: Path) -> None:
    with pytest.raises(UnknownFormatError) as error:
        read_transcript(path)
    assert str(path) in str(error.value) and len(error.value.message) > 40
