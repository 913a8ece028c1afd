"""Damaged lines and cut files: what was acknowledged stays, and a fold stays a fold (I4, K1, K2, K5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fivefold.core.entries import CLEARED, Entry, Fold, HideEntries, HideSpan, HideThinking, Record, ReplaceBlocks, Target, Unfold
from fivefold.core.messages import Text, ToolResult
from fivefold.core.view import view_of
from fivefold.errors import DuplicateIdError, StoreError
from fivefold.store.jsonl import read_session
from fivefold.store.lines import encode_line
from fivefold.store.session import Session
from tests.store.made import HEAD, all_kinds, answer, call, compaction, log_of, said
from tests.store.test_session import session_of


def ids(path: Path, *, history: bool = True) -> list[str]:
    """Ids of what is shown."""
    return [entry.id for entry in view_of(read_session(path, history=history).log).entries()]


def damage(path: Path, id: str, new: bytes | None = None) -> None:
    """Spoil the line of an entry; by default so that its id can still be made out."""
    lines = path.read_bytes().split(b"\n")
    number = next(i for i, line in enumerate(lines) if line.startswith(b'{"type":"entry","id":"%s"' % id.encode()))
    lines[number] = lines[number][:-3] if new is None else new
    path.write_bytes(b"\n".join(lines))


# --- ids that were given out before (I4)


@pytest.mark.parametrize("id", ["e1", "e3", "f1", "old", "old-summary", "old-tail"])
def test_i4_an_id_that_was_not_loaded_is_refused_as_in_a_whole_session(tmp_path: Path, id: str) -> None:
    records = [*all_kinds()[:6], compaction("old", "e2"), said("e6"), compaction("f2", "e6"), said("e9")]
    path = session_of(tmp_path / "s.jsonl", *records)
    with Session.open(path, fsync="never") as session:
        assert session.log.base > 0
        for record in (
            said(id),
            Fold(id=id, level="auto", changes=()),
            Fold(id="n", level="auto", changes=(HideSpan("e9", "e9", (said(id),)),)),
        ):
            with pytest.raises(DuplicateIdError):
                session.append(record)
        with pytest.raises(DuplicateIdError):
            session.append(said("new1"), said(id))
        session.append(said("new"))
        assert session.view == view_of(session.log)
    assert read_session(path).bad_lines == ()
    assert read_session(path).log == log_of(*records, said("new"))


def test_i4_a_new_id_leaves_the_history_where_it_is(tmp_path: Path) -> None:
    path = session_of(tmp_path / "s.jsonl", *(said(f"e{i}") for i in range(50)), compaction("f", "e48"))
    with Session.open(path, fsync="never") as session:
        session.append(said("new"))
        assert session.log.base == 49
        with pytest.raises(DuplicateIdError):
            session.append(said("e3"))


# --- batches (K1)


@pytest.mark.parametrize(
    "head",
    [
        b'{"type":"batch","lines":1000000}',
        b'{"type":"batch","lines":1000000,"bytes":100000000,"at":0}',
        b'{"type":"batch","lines":3,"bytes":100000000,"at":%d}',
        b'{"type":"batch","lines":1000000,"bytes":300,"at":%d}',
        b'{"type":"batch","lines":1000000,"bytes":20,"at":%d}',
        b'{"type":"batch","lines":-1,"bytes":0,"at":%d}',
        b'{"type":"batch","lines":1000000,"bytes":100000000,"at":%d}',
    ],
)
def test_k1_a_damaged_head_of_a_batch_costs_no_record(tmp_path: Path, head: bytes) -> None:
    path = session_of(tmp_path / "s.jsonl", *all_kinds())
    first, rest = path.read_bytes().split(b"\n", 1)
    line = head % (len(first) + 1) if b"%d" in head else head
    path.write_bytes(first + b"\n" + line + b"\n" + rest)
    for _ in range(2):
        with Session.open(path, history=True, fsync="never") as session:
            assert session.log == log_of(*all_kinds())
            assert session.torn is None
            assert [bad.line for bad in session.bad_lines] == [2]
    assert view_of(read_session(path, history=False).log) == view_of(log_of(*all_kinds()))
    assert path.read_bytes() == first + b"\n" + line + b"\n" + rest


def test_k1_a_spoilt_count_in_a_real_batch_costs_no_record(tmp_path: Path) -> None:
    records = [said(f"e{i}") for i in range(4)]
    path = tmp_path / "s.jsonl"
    with Session.create(path, HEAD, fsync="never") as session:
        session.append(*records[:2])
        session.append(records[2])
        session.append(records[3])
    whole = path.read_bytes()
    for spoilt in (b'"lines":1,', b'"lines":3,', b'"lines":9,', b'"lines":4,'):
        path.write_bytes(whole.replace(b'"lines":2,', spoilt))
        with Session.open(path, fsync="never") as again:
            assert again.log == log_of(*records)
            assert [bad.line for bad in again.bad_lines] == [2]


def test_k1_a_file_edited_by_hand_keeps_its_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Session.create(path, HEAD, fsync="never") as session:
        session.append(said("a"))
        session.append(said("b"), said("c"))
    damage(path, "a", b"")
    data = read_session(path)
    assert (data.log, data.bad_lines, data.torn) == (log_of(said("b"), said("c")), (), None)


def test_k1_what_is_cut_off_is_set_aside(tmp_path: Path) -> None:
    path = session_of(tmp_path / "s.jsonl", said("a"))
    good = path.read_bytes()
    for number in (1, 2):
        path.write_bytes(good + b'{"type":"entry","id":"b%d' % number)
        with Session.open(path) as session:
            assert session.torn is not None
            assert session.set_aside == Path(f"{path}.torn-{number}")
        assert path.read_bytes() == good
    assert [Path(f"{path}.torn-{i}").read_bytes()[-2:] for i in (1, 2)] == [b"b1", b"b2"]
    assert Path(f"{path}.torn-1").stat().st_mode & 0o777 == 0o600


def test_k1_a_torn_end_that_cannot_be_set_aside_is_left_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = session_of(tmp_path / "s.jsonl", said("a"))
    torn = path.read_bytes() + b"torn"
    path.write_bytes(torn)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(StoreError, match="cannot be set aside and cut off: No space left"):
        Session.open(path)
    assert path.read_bytes() == torn
    assert not list(tmp_path.glob("*.torn-*"))


# --- folds that name what was on a damaged line (K2)

LONG = [said(f"e{i}") for i in range(10)]


@pytest.mark.parametrize("line", [None, b"no JSON at all", b"\0" * 80])
def test_k2_a_damaged_entry_that_ends_a_compaction_does_not_bring_the_history_back(tmp_path: Path, line: bytes | None) -> None:
    path = session_of(tmp_path / "s.jsonl", *LONG[:8], compaction("f", "e5"), LONG[8])
    damage(path, "e5", line)
    shown = ["f-boundary", "f-summary", "e6", "e7", "f-tail", "e8"]
    assert ids(path) == ids(path, history=False) == shown
    bad = read_session(path).bad_lines
    assert [b.line for b in bad] == [7, 10]
    assert "names entries on damaged lines" in bad[1].why and "'e4'" in bad[1].why
    with Session.open(path, history=True, fsync="never") as session:
        session.append(said("more"))
        session.undo("f")
        assert [entry.id for entry in session.view.entries()] == [e.id for e in [*LONG[:5], *LONG[6:9], said("more")]]
    assert ids(path) == ids(path, history=False)


def test_k2_a_span_between_damaged_entries_hides_what_is_left_of_it(tmp_path: Path) -> None:
    fold = Fold(id="f", level="partial", changes=(HideSpan("e6", "e2", (said("s"),)), HideThinking("e6", "e2")))
    path = session_of(tmp_path / "s.jsonl", *LONG, fold)
    damage(path, "e2")
    damage(path, "e6")
    assert ids(path) == ["e0", "e1", "s", "e7", "e8", "e9"]
    data = read_session(path)
    assert data.log.folds[0].fold.changes == (HideSpan("e5", "e3", (said("s"),)), HideThinking("e5", "e3"))
    for id in ("e3", "e4", "e5"):
        damage(path, id)
    assert ids(path) == ["e0", "e1", "e7", "e8", "e9"], "nothing to hide is left"
    assert "nothing is left" in read_session(path).bad_lines[-1].why


def test_k2_single_entries_on_damaged_lines_do_not_bring_back_the_others(tmp_path: Path) -> None:
    records: list[Record] = [
        *(part for i in "123" for part in (call(f"c{i}", "ls"), answer(f"r{i}", f"c{i}", f"text {i}"))),
        Fold(id="f1", level="micro", changes=(ReplaceBlocks((Target("r1", 0), Target("r2", 0)), ("one", "two")),)),
        Fold(id="f2", level="micro", changes=(ReplaceBlocks((Target("r1", 0), Target("r3", 0))),)),
        Fold(id="f3", level="snip", changes=(HideEntries(("r1", "c2")),)),
        Fold(id="f4", level="snip", changes=(HideEntries(("r1",)),)),
        Unfold(fold="f4"),
    ]
    path = session_of(tmp_path / "s.jsonl", *records)
    damage(path, "r1")
    data = read_session(path)
    shown = {entry.id: entry.blocks for entry in view_of(data.log).entries()}
    assert list(shown) == ["c1", "r2", "c3", "r3"]
    assert (shown["r2"], shown["r3"]) == ((ToolResult("tc2", "two"),), (ToolResult("tc3", CLEARED),))
    assert [bad.line for bad in data.bad_lines] == [3, 8, 9, 10, 11]
    assert [placed.fold.id for placed in data.log.folds] == ["f1", "f2", "f3"]


def test_k2_an_id_that_never_was_still_drops_the_fold(tmp_path: Path) -> None:
    path = session_of(tmp_path / "s.jsonl", *LONG)
    with path.open("ab") as file:
        file.write(encode_line(compaction("f", "never")))
    assert ids(path) == [entry.id for entry in LONG]
    damage(path, "e4")
    assert ids(path) == [entry.id for entry in LONG if entry.id != "e4"], "the damaged line tells that it is another"


def test_k2_a_damaged_entry_behind_the_mark_is_the_same_in_part_and_whole(tmp_path: Path) -> None:
    later = Fold(id="g", level="partial", changes=(HideSpan("e8", "e7", (Entry(id="s", kind="user", blocks=(Text("s"),)),)),))
    path = session_of(tmp_path / "s.jsonl", *LONG, compaction("f", "e5"), later)
    for line in (None, b"junk"):
        whole = path.read_bytes()
        damage(path, "e8", line)
        assert ids(path) == ids(path, history=False) == ["f-boundary", "f-summary", "e6", "s", "e9", "f-tail"]
        path.write_bytes(whole)


# --- files cut short while a session is open in part (K5)


@pytest.mark.parametrize("left", [0, 10, 500])
def test_k5_a_file_cut_short_under_a_session_open_in_part(tmp_path: Path, left: int) -> None:
    path = session_of(tmp_path / "s.jsonl", *LONG, compaction("f", "e8"))
    with Session.open(path, fsync="never") as session:
        assert session.log.base == 9
        path.write_bytes(path.read_bytes()[:left])
        for ask in (session.history, lambda: session.undo("f")):
            with pytest.raises(StoreError, match=r"s\.jsonl"):
                ask()
        session.append(said("more"))
        session.append(compaction("g", "more"))
        assert session.view == view_of(session.log)
        assert session.waiting == 2
        assert "changed by another program" in str(session.problems[-1])
    assert path.stat().st_size == left
