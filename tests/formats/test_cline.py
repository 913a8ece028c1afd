"""Cline's and Roo Code's histories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fivefold.core.entries import Fold, HideEntries, HideSpan, Usage
from fivefold.core.messages import JSON, Opaque, Text, ToolResult, ToolUse
from fivefold.core.transcript import Transcript
from fivefold.errors import BadLineError
from fivefold.formats import cline
from fivefold.formats.source import Source

from .mutate import only_input_errors

DATA = Path(__file__).parent.parent / "data" / "cline" / "session.messages.json"


def stored(path: Path, document: object, *, indent: int | None = None) -> Source:
    file = path / "api_conversation_history.json"
    file.write_text(json.dumps(document, indent=indent), encoding="utf-8")
    return Source(file)


def message(role: str, content: object, **more: object) -> dict[str, object]:
    return {"role": role, "content": content, "ts": 1_783_000_000_000, **more}


def unexpected(line: int, why: str) -> None:
    raise AssertionError(f"{line}: {why}")


def folds(read: Transcript) -> list[Fold]:
    return [placed.fold for placed in read.main.log.folds]


def test_z3_a_recorded_session_is_read() -> None:
    source = Source(DATA)
    assert cline.recognises(source)
    read = cline.read(source)
    entries = list(read.main.log.entries())
    assert [entry.kind for entry in entries[:3]] == ["user", "assistant", "user"]
    assert isinstance(entries[0].blocks[1], Opaque)  # Cline's own block of a file
    assert isinstance(entries[1].blocks[1], ToolUse)
    assert isinstance(entries[2].blocks[0], ToolResult)
    assert entries[1].model == "anthropic/claude-opus-4.8-fast"
    head = read.main.log.head
    assert (head.id, head.name) == ("1784094124598_rruoq", "lead")
    assert isinstance(head.system[0], Text)
    assert read.meta["version"] == 1


def test_z3_encode_gives_back_every_message_as_it_came() -> None:
    messages: list[JSON] = json.loads(DATA.read_text(encoding="utf-8"))["messages"]
    assert cline.encode(cline.decode(messages, unexpected)) == messages


def test_z3_encode_gives_back_bare_texts_empty_lists_and_unknown_blocks() -> None:
    messages: list[JSON] = [
        {"role": "user", "content": "plain", "ts": 1, "own": {"a": 1}},
        {"role": "assistant", "content": [], "id": "same"},
        {"role": "assistant", "content": [{"type": "text", "text": "x", "y": 1}, {"type": "odd"}, 5], "id": "same"},
        {"role": "system", "content": "note"},
    ]
    assert cline.encode(cline.decode(messages, unexpected)) == messages


def test_t2_input_holds_the_cached_parts(tmp_path: Path) -> None:
    metrics = {"inputTokens": 100, "outputTokens": 7, "cacheReadTokens": 80, "cacheWriteTokens": 15, "cost": 0.1}
    read = cline.read(stored(tmp_path, [message("user", "q"), message("assistant", "a", metrics=metrics)]))
    assert list(read.main.log.entries())[1].usage == Usage(input=5, cache_write=15, cache_read=80, output=7)


@pytest.mark.parametrize("indent", [None, 2])
def test_z3_a_bare_list_is_read_on_one_line_and_on_many(tmp_path: Path, indent: int | None) -> None:
    source = stored(tmp_path, [message("user", "q"), message("assistant", "a")], indent=indent)
    assert cline.recognises(source)
    assert len(cline.read(source).main.log) == 2


@pytest.mark.parametrize(
    "document",
    [
        [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
        {"messages": [{"role": "user", "content": "q"}]},
        [{"role": "user", "content": "q", "ts": 12}],
        [{"ts": 1_783_000_000_000, "type": "say", "say": "text", "text": "x"}],
        {"messages": {}},
        [],
        [1, 2],
    ],
)
def test_z3_plain_message_lists_and_other_documents_are_not_claimed(tmp_path: Path, document: object) -> None:
    assert not cline.recognises(stored(tmp_path, document))


def test_z3_json_lines_of_messages_are_not_claimed(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps(message("user", "q")) + "\n" for _ in range(2)))
    assert not cline.recognises(Source(file))


def test_k4_what_roo_s_summary_hides_is_a_fold(tmp_path: Path) -> None:
    read = cline.read(
        stored(
            tmp_path,
            [
                message("user", "task", condenseParent="c1"),
                message("assistant", "done", condenseParent="c1"),
                message("user", "summary text", isSummary=True, condenseId="c1"),
                message("assistant", "on"),
            ],
        )
    )
    entries = list(read.main.log.entries())
    (fold,) = folds(read)
    assert fold.changes == (HideEntries((entries[0].id, entries[1].id)),)
    assert read.main.log.folds[0].at == 3
    assert entries[2].summary and entries[2].meta


def test_k4_what_roo_s_truncation_hides_is_a_fold_and_revived_messages_are_not(tmp_path: Path) -> None:
    read = cline.read(
        stored(
            tmp_path,
            [
                message("user", "task"),
                message("assistant", "old", truncationParent="t1"),
                message("user", "revived", truncationParent="gone"),
                message("user", "left out", isTruncationMarker=True, truncationId="t1"),
            ],
        )
    )
    (fold,) = folds(read)
    assert isinstance(fold.changes[0], HideEntries)
    assert len(fold.changes[0].ids) == 1


def test_k4_an_untagged_summary_hides_all_but_the_first_message(tmp_path: Path) -> None:
    said = [message("user", "task"), message("assistant", "a"), message("user", "b"), message("assistant", "sum", isSummary=True)]
    read = cline.read(stored(tmp_path, said))
    entries = list(read.main.log.entries())
    (fold,) = folds(read)
    assert fold.changes == (HideSpan(last=entries[2].id, first=entries[1].id),)


def test_z3_what_is_no_message_is_reported_with_its_number_or_all_refused(tmp_path: Path) -> None:
    document = [message("user", "q"), 5, {"role": "user", "ts": 1}, {"role": "robot", "content": "x"}]
    source = stored(tmp_path, document)
    assert [bad.line for bad in cline.read(source).bad_lines] == [2, 3, 4]
    with pytest.raises(BadLineError):
        cline.read(Source(source.path, strict=True))


def test_z3_whatever_is_damaged_nothing_but_an_input_error_escapes(tmp_path: Path) -> None:
    assert only_input_errors(cline.read, DATA, tmp_path, 120, recognises=cline.recognises) > 20
