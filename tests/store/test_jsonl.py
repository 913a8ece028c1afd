"""The session file: what is written is read again, whatever is in it (K1)."""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path

import msgspec
import pytest

from fivefold.core.entries import Entry, Fold, HideSpan, ReplaceBlocks, Target
from fivefold.core.log import Log
from fivefold.core.messages import JSON, Text, ToolUse
from fivefold.core.transcript import OtherRecord
from fivefold.core.view import view_of
from fivefold.errors import InputError, LockedError, StoreError
from fivefold.formats import session as session_format
from fivefold.formats.session_lines import SCHEMA
from fivefold.formats.source import MAX_LINE, Source
from fivefold.store.jsonl import read_session, write_session
from fivefold.store.lines import encode_line
from fivefold.store.session import Session
from tests.store.made import HEAD, all_kinds, answer, call, log_of, said

OTHERS = (
    OtherRecord(1, b'{"type" : "progress", "n":null}'),
    OtherRecord(2, b"[1, 2]"),
    OtherRecord(3, b'"only a string"'),
    OtherRecord(4, b'# no JSON at all \\ " \xf0\x9f\x98\x80'),
    OtherRecord(5, b'{"nan": NaN, "half": "\\ud83d"}'),
    OtherRecord(6, b'{\n  "pretty": 1\n}'),
    OtherRecord(7, b"\xff\xfe no UTF-8"),
    OtherRecord(8, b""),
)


def written(tmp_path: Path, log: Log, other: tuple[OtherRecord, ...] = ()) -> Path:
    path = tmp_path / "s.jsonl"
    write_session(path, log, other)
    return path


def test_k1_a_file_gives_back_the_log_the_view_and_the_other_records(tmp_path: Path) -> None:
    log = log_of(*all_kinds())
    data = read_session(written(tmp_path, log, OTHERS))
    assert data.log == log
    assert data.log.head == HEAD
    assert view_of(data.log) == view_of(log)
    assert data.other == OTHERS
    assert (data.bad_lines, data.torn) == ((), None)


def test_k1_each_line_is_strict_json_with_its_type_and_the_first_names_the_schema(tmp_path: Path) -> None:
    lines = written(tmp_path, log_of(*all_kinds()), OTHERS).read_bytes().split(b"\n")
    values = [json.loads(line, parse_constant=pytest.fail) for line in lines[:-1]]
    assert lines[-1] == b""
    assert (values[0]["type"], values[0]["schema"], values[0]["head"]["id"]) == ("session", SCHEMA, "s1")
    assert {value["type"] for value in values[1:]} == {"other", "entry", "fold", "unfold", "mark"}


def test_k1_files_are_for_their_owner_only(tmp_path: Path) -> None:
    path = written(tmp_path, log_of(said("a")))
    made = Session.create(tmp_path / "new.jsonl", HEAD)
    lock = Path(f"{made.path}.lock")
    assert {stat.S_IMODE(os.stat(p).st_mode) for p in (path, made.path, lock)} == {0o600}
    made.close()


def test_k1_what_goes_through_a_transcript_and_a_session_file_stays_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, log_of(*all_kinds()), OTHERS)
    source = Source(path)
    assert session_format.recognises(source)
    read = session_format.read(source)
    write_session(tmp_path / "again.jsonl", read.main.log, read.other)
    again = session_format.read(Source(tmp_path / "again.jsonl"))
    assert again.main.log == read.main.log
    assert again.other == read.other == OTHERS
    assert [e.blocks for e in view_of(again.main.log).entries()] == [e.blocks for e in view_of(log_of(*all_kinds())).entries()]
    assert read.format == "fivefold"


def test_z3_an_entry_without_a_source_line_gets_the_one_in_the_session_file(tmp_path: Path) -> None:
    read = session_format.read(Source(written(tmp_path, log_of(*all_kinds()))))
    assert [entry.line for entry in read.main.log.entries()] == [2, 3, 4, 7, 7, 8, 13]


@pytest.mark.parametrize("value", [2**80, -(2**70), 10**300, math.inf, -math.inf, [1.0, {"x": math.inf}]])
def test_k1_numbers_that_strict_json_does_not_know_come_back(tmp_path: Path, value: JSON) -> None:
    entry = Entry(id="a", kind="assistant", blocks=(ToolUse("t", "calc", {"n": value, "none": None}),), raw=msgspec.Raw(b'{"raw" : 1}'))
    log = log_of(entry, said("b"))
    assert read_session(written(tmp_path, log)).log == log


def test_k1_nan_stays_nan_in_entries_and_in_what_folds_bring(tmp_path: Path) -> None:
    entry = Entry(id="a", kind="assistant", blocks=(ToolUse("t", "calc", {"n": math.nan}),), raw=msgspec.Raw(b'{"a":NaN}'))
    brought = msgspec.structs.replace(entry, id="b")
    log = log_of(entry, Fold(id="f", level="auto", changes=(HideSpan("a", None, (brought,)),), raw=msgspec.Raw(b"[1 ]")))
    read = read_session(written(tmp_path, log)).log
    for found in (read.find("a"), read.find("b")):
        assert found is not None
        block = found.blocks[0]
        assert isinstance(block, ToolUse) and isinstance(block.input, dict)
        assert isinstance(block.input["n"], float) and math.isnan(block.input["n"])
        assert bytes(found.raw) == b'{"a":NaN}'
    assert bytes(read.folds[0].fold.raw) == b"[1 ]"


def test_k1_half_surrogate_pairs_are_written_as_the_replacement_character(tmp_path: Path) -> None:
    entry = Entry(
        id="a", kind="user", blocks=(Text("half \ud83d, whole \ud83d\ude00", {"k\ud800": "\udfff"}),), raw=msgspec.Raw(b'{"a":"\\ud83d"}')
    )
    path = written(tmp_path, log_of(entry))
    read = read_session(path).log.find("a")
    assert read is not None
    assert read.blocks == (Text("half \ufffd, whole \U0001f600", {"k\ufffd": "\ufffd"}),)
    assert bytes(read.raw) == b'{"a":"\\ud83d"}'
    assert path.read_bytes().decode("utf-8")


@pytest.mark.parametrize("raw", [b'{"a":"\\ud83d"}', b'{"a" :\n1}', b"no JSON", b'{"a": 1e999}', b'"text"', b"{" * 9])
def test_k1_a_source_record_is_kept_as_its_bytes(tmp_path: Path, raw: bytes) -> None:
    entry = Entry(id="a", kind="user", raw=msgspec.Raw(raw))
    brought = Entry(id="b", kind="user", raw=msgspec.Raw(raw))
    log = log_of(entry, Fold(id="f", level="auto", changes=(HideSpan("a", None, (), (brought,)),), raw=msgspec.Raw(raw)))
    assert read_session(written(tmp_path, log)).log == log


def test_k1_a_file_of_another_writer_with_odd_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = [
        b'\xef\xbb\xbf{ "type": "session", "schema": "fivefold.session/1", "head": {"type": "head", "id": "x"}}\r',
        b"",
        b'{"id":"a","kind":"user","blocks":[{"text":"\\ud83d","type":"text"}],"type":"entry","raw":{"n":NaN},"new_key":1}',
    ]
    path.write_bytes(b"\n".join(lines))
    data = read_session(path)
    entry = data.log.find("a")
    assert entry is not None
    assert (data.log.head.id, entry.blocks, bytes(entry.raw)) == ("x", (Text("\ufffd"),), b'{"n": NaN}')
    assert (data.bad_lines, data.torn, data.newline_missing) == ((), None, True)


def test_k1_bad_lines_are_listed_with_their_numbers_and_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, log_of(said("a"), said("b")))
    clear = Fold(id="f", level="micro", changes=(ReplaceBlocks((Target("gone", 0),)),))
    with path.open("ab") as file:
        file.write(
            b'not JSON\n{"type":"entry"}\n{"type":"later"}\n[]\n' + encode_line(clear) + encode_line(said("a")) + encode_line(said("c"))
        )
    data = read_session(path)
    assert [entry.id for entry in data.log.entries()] == ["a", "b", "c"]
    assert [bad.line for bad in data.bad_lines] == [4, 5, 6, 7, 8, 9]
    assert "gone" in data.bad_lines[4].why and "already" in data.bad_lines[5].why
    assert [bad.line for bad in session_format.read(Source(path)).bad_lines] == [4, 5, 6, 7, 8, 9]
    with pytest.raises(InputError, match=r"s\.jsonl:4: "):
        session_format.read(Source(path, strict=True))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"hello\n", "not a fivefold session"),
        (b'{"type":"session","id":"x"}\n', "not a fivefold session"),
        (b'{"type":"user","uuid":"1","parentUuid":null}\n', "not a fivefold session"),
        (b'{"type":"session","schema":"fivefold.session/2","head":{"type":"head"}}\n', "use a newer fivefold"),
    ],
)
def test_k1_what_is_no_session_is_refused_and_left_alone(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(content)
    for history in (True, False):
        with pytest.raises(InputError, match=why):
            read_session(path, history=history)
        with pytest.raises(InputError, match=why):
            Session.open(path, history=history)
    assert path.read_bytes() == content


def test_z3_a_session_whose_first_line_is_damaged_is_still_recognised_only_by_a_session_line(tmp_path: Path) -> None:
    path = written(tmp_path, log_of(said("a")))
    head, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(b"junk {\n" + head + b"\n" + rest)
    source = Source(path)
    assert not session_format.recognises(source) or session_format.read(source).bad_lines[0].line == 1
    other = tmp_path / "other.jsonl"
    other.write_bytes(b'{"type":"session","version":3,"id":"x"}\n{"type":"entry","id":"a"}\n')
    assert not session_format.recognises(Source(other))


def test_k1_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.jsonl: .*No such file"):
        read_session(tmp_path / "gone.jsonl")
    with pytest.raises(InputError, match=r"Session\.create"):
        Session.open(tmp_path / "gone.jsonl")
    with pytest.raises(InputError, match="no regular file"):
        Session.open(tmp_path)


def test_k1_writing_whole_replaces_whole_or_not_at_all(tmp_path: Path) -> None:
    path = written(tmp_path, log_of(said("a")))
    before = path.read_bytes()
    with pytest.raises(StoreError, match="entry 'c' cannot be written as JSON"):
        write_session(path, log_of(said("b"), Entry(id="c", kind="user", extra={"x": object()})))  # type: ignore[dict-item]
    assert path.read_bytes() == before
    write_session(path, log_of(said("b")))
    assert read_session(path).log == log_of(said("b"))
    assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == ["s.jsonl"]
    with pytest.raises(StoreError, match="cannot be written: No such file"):
        write_session(tmp_path / "no" / "s.jsonl", log_of())


def test_k3_a_file_that_is_open_elsewhere_is_not_replaced(tmp_path: Path) -> None:
    path = written(tmp_path, log_of(said("a")))
    with Session.open(path), pytest.raises(LockedError, match=r"s\.jsonl"):
        write_session(path, log_of(said("b")))
    assert read_session(path).log == log_of(said("a"))


def test_k2_a_log_that_is_not_loaded_whole_is_not_written_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"Session\.history\(\)"):
        write_session(tmp_path / "s.jsonl", Log(HEAD, [said("z")], base=3))


def test_h4_a_record_over_the_limit_is_refused_before_it_is_kept(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", HEAD, fsync="never") as session:
        with pytest.raises(StoreError, match="over the limit"):
            session.append(said("a"), said("big", "x" * MAX_LINE))
        assert len(session.log) == 0
        session.append(said("a"))
    assert read_session(tmp_path / "s.jsonl").log == log_of(said("a"))


def test_h4_a_line_over_the_limit_is_passed_over_and_named(tmp_path: Path) -> None:
    path = written(tmp_path, log_of(said("a")))
    with path.open("ab") as file:
        file.write(b"x" * (MAX_LINE + 10) + b"\n" + encode_line(said("b")))
    data = read_session(path)
    assert data.log == log_of(said("a"), said("b"))
    assert [(bad.line, "over the limit" in bad.why) for bad in data.bad_lines] == [(3, True)]


def test_k1_an_entry_nested_too_deep_is_refused_and_the_session_goes_on(tmp_path: Path) -> None:
    deep: JSON = 1
    for _ in range(100_000):
        deep = [deep]
    with Session.create(tmp_path / "s.jsonl", HEAD, fsync="never") as session:
        with pytest.raises(StoreError, match="cannot be written as JSON"):
            session.append(Entry(id="a", kind="user", extra={"deep": deep}))
        session.append(call("b", "ls"), answer("c", "b", "x"))
        assert [entry.id for entry in session.log.entries()] == ["b", "c"]
