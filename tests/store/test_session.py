"""The open session: appended, torn, locked, resumed (K1, K2, K3, X5)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fivefold.core.entries import Fold, HideSpan, Record, ReplaceBlocks, Target, Unfold
from fivefold.core.log import Log
from fivefold.core.view import view_of
from fivefold.errors import DuplicateIdError, FoldError, InputError, LockedError, StoreError
from fivefold.store.jsonl import CHUNK, read_session, write_session
from fivefold.store.lines import encode_line
from fivefold.store.session import Session
from tests.store.made import HEAD, all_kinds, answer, call, compaction, log_of, said


def session_of(path: Path, *records: Record) -> Path:
    """A session file to which each record was appended on its own."""
    with Session.create(path, HEAD, fsync="never") as session:
        for record in records:
            session.append(record)
        assert session.problems == []
    return path


def test_k1_what_was_appended_is_there_with_the_same_view(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with Session.create(path, HEAD) as session:
        for record in all_kinds():
            session.append(record)
            assert session.view == view_of(session.log)
            assert read_session(path).log == session.log
    with Session.open(path, history=True) as again:
        assert again.log == log_of(*all_kinds())
        assert again.view == session.view
        again.append(said("e8"))
    assert read_session(path).log == log_of(*all_kinds(), said("e8"))


def test_k1_an_append_is_all_or_nothing_in_memory_too(tmp_path: Path) -> None:
    path = session_of(tmp_path / "s.jsonl", said("a"))
    before = path.read_bytes()
    with Session.open(path) as session:
        with pytest.raises(DuplicateIdError):
            session.append(said("b"), said("a"))
        with pytest.raises(FoldError):
            session.append(Fold(id="f", level="micro", changes=(ReplaceBlocks((Target("gone", 0),)),)))
        assert session.log == log_of(said("a"))
    assert path.read_bytes() == before


# --- a crash at every byte

LAST_WRITES: dict[str, tuple[Record, ...]] = {
    "an entry": (said("z", "héllo 世界 😀"),),
    "a fold and its mark": (compaction("f9", "e7"),),
    "an undo": (Unfold(fold="f2"),),
    "several records": (call("y", "ls"), answer("z", "y", "ok"), compaction("f9", "e7"), said("zz")),
    "a number that strict JSON does not know": (answer("y", "e5", "\ud800"),),
}


@pytest.mark.parametrize("records", LAST_WRITES.values(), ids=LAST_WRITES)
def test_k1_a_crash_at_each_byte_of_the_last_write_resumes_to_before_or_after(tmp_path: Path, records: tuple[Record, ...]) -> None:
    path = session_of(tmp_path / "s.jsonl", *all_kinds())
    start = path.stat().st_size
    before = read_session(path).log
    with Session.open(path, history=True, fsync="never") as session:
        session.append(*records)
    whole = path.read_bytes()
    after = read_session(path).log
    assert after.record_count == before.record_count + len(records)
    states = []
    for size in range(start, len(whole) + 1):
        path.write_bytes(whole[:size])
        with Session.open(path, fsync="never") as session:
            found = session.history()
            assert found in (before, after)
            assert session.view == view_of(found)
            states.append(found == after)
            session.append(said("next"))
            session.append(compaction("f99", "e7"))
            assert session.problems == []
            log = found.append(said("next"), compaction("f99", "e7"))
            assert session.view == view_of(log)
        data = read_session(path, history=False)
        assert (data.torn, data.bad_lines, data.log.base) == (None, (), 7)
        assert data.lines == path.read_bytes().count(b"\n")
        assert view_of(data.log) == view_of(log)
    assert states == sorted(states), "once it is after, it stays so"
    assert states[0] is False and states[-1] is True


def test_k1_a_torn_end_is_cut_off_and_reported(tmp_path: Path) -> None:
    path = session_of(tmp_path / "s.jsonl", said("a"))
    good = path.read_bytes()
    path.write_bytes(good + b'{"type":"entry","id":"b","ki')
    with Session.open(path, readonly=True) as looked:
        assert looked.torn == (len(good), 28, '{"type":"entry","id":"b","ki')
    assert path.stat().st_size == len(good) + 28, "who only looks changes nothing"
    with Session.open(path) as session:
        assert session.torn == looked.torn
        assert session.log == log_of(said("a"))
    assert path.read_bytes() == good
    with Session.open(path) as session:
        assert session.torn is None


def test_k1_a_last_line_that_lacks_only_its_line_end_is_kept(tmp_path: Path) -> None:
    path = session_of(tmp_path / "s.jsonl", said("a"), said("b"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with Session.open(path) as session:
        assert session.torn is None
        assert session.log == log_of(said("a"), said("b"))
        assert path.read_bytes() == whole
        session.append(compaction("f", "b"))
    data = read_session(path, history=False)
    assert data.log.base == 2
    assert path.read_bytes()[data.end - data.bytes_read + len(whole.split(b"\n")[0]) + 1 :].startswith(b'{"type":"fold"'), (
        "the mark counts it"
    )
    assert read_session(path).log == log_of(said("a"), said("b"), compaction("f", "b"))


# --- one writer


def test_k3_the_second_writer_is_told_and_may_look(tmp_path: Path) -> None:
    path = session_of(tmp_path / "s.jsonl", said("a"))
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    with Session.open(path) as first:
        for name in (path, link):
            with pytest.raises(LockedError, match=r"s\.jsonl.*readonly=True"):
                Session.open(name)
        with Session.open(link, readonly=True) as looking:
            first.append(said("b"))
            assert looking.log == looking.history() == log_of(said("a"))
            with pytest.raises(StoreError, match="read only"):
                looking.append(said("c"))
    with Session.open(path) as session:
        assert session.log == log_of(said("a"), said("b"))


def test_k3_the_lock_holds_between_processes_and_ends_with_its_process(tmp_path: Path) -> None:
    path = session_of(tmp_path / "s.jsonl", said("a"))
    program = (
        "import sys\n"
        "from fivefold.store.session import Session\n"
        "from fivefold.errors import LockedError\n"
        "try:\n    session = Session.open(sys.argv[1])\n    print('open', flush=True)\n    sys.stdin.read()\n"
        "except LockedError as error:\n    print('locked', flush=True)\n"
    )
    command = [sys.executable, "-c", program, str(path)]
    with Session.open(path):
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "locked\n"
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(LockedError):
            Session.open(path)
        other.kill()
    Session.open(path).close()


def test_k3_a_session_that_could_not_be_opened_keeps_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"no session\n")
    with pytest.raises(InputError):
        Session.open(path)
    path.unlink()
    session_of(path, said("a"))
    with pytest.raises(StoreError, match="there is a file already"):
        Session.create(path, HEAD)
    Session.open(path).close()


def test_k1_a_closed_session_says_so(tmp_path: Path) -> None:
    session = Session.create(tmp_path / "s.jsonl", HEAD)
    session.close()
    session.close()
    with pytest.raises(StoreError, match="closed"):
        session.append(said("a"))


# --- reading what is shown


def compacted(path: Path, times: int, entries: int = 10) -> Log:
    """A session that was compacted so often; the last four entries before each compaction stay."""
    records: list[Record] = []
    for round in range(times):
        records += [said(f"e{round}-{i}", "x" * 200) for i in range(entries)]
        records.append(compaction(f"f{round}", f"e{round}-{entries - 5}"))
    session_of(path, *records)
    return log_of(*records)


def test_k2_resuming_reads_only_what_the_view_needs(tmp_path: Path) -> None:
    log = compacted(tmp_path / "s.jsonl", 200)
    data = read_session(tmp_path / "s.jsonl", history=False)
    assert (data.log.base, len(data.log)) == (200 * 10 - 4, 2000)
    assert view_of(data.log) == view_of(log)
    assert data.log.changed_at == log.changed_at
    size = (tmp_path / "s.jsonl").stat().st_size
    assert size > 600_000 and data.bytes_read < 300_000
    with Session.open(tmp_path / "s.jsonl") as session:
        assert session.history() == log
        assert session.log.base == 1996, "asking for the history does not load it for good"
        session.append(said("more"), compaction("last", "more"))
        assert session.view == view_of(log.append(said("more"), compaction("last", "more")))
    assert read_session(tmp_path / "s.jsonl", history=False).log.base == 2001


def test_k2_line_numbers_are_the_files_own_when_only_its_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    compacted(path, 3)
    with path.open("ab") as file:
        file.write(b"junk\n")
    data = read_session(path, history=False)
    assert data.log.base > 0
    assert [bad.line for bad in data.bad_lines] == [path.read_bytes().count(b"\n")]
    assert data.lines == path.read_bytes().count(b"\n")


def test_x5_undoing_on_a_session_loaded_in_part_loads_the_history_first(tmp_path: Path) -> None:
    log = compacted(tmp_path / "s.jsonl", 5)
    with Session.open(tmp_path / "s.jsonl", fsync="never") as session:
        assert session.log.base > 0
        session.append(said("new"))
        session.undo("f4", time=5.0)
        assert session.log == log.append(said("new"), Unfold(fold="f4", time=5.0))
        assert session.view == view_of(session.log)
        session.append(said("more"), compaction("last", "new"))
        with pytest.raises(FoldError):
            session.undo("f4")
    data = read_session(tmp_path / "s.jsonl", history=False)
    assert data.log.base == 51
    assert view_of(data.log) == view_of(read_session(tmp_path / "s.jsonl").log)


def test_x5_a_file_whose_last_compaction_was_undone_is_read_from_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    log = compacted(path, 5)
    with Session.open(path) as session:
        session.undo("f4")
        session.undo("f3")
    data = read_session(path, history=False)
    assert data.log.base == 26
    assert view_of(data.log) == view_of(log.append(Unfold(fold="f4"), Unfold(fold="f3")))


def test_k2_a_fold_of_what_was_not_loaded_is_checked_against_the_history(tmp_path: Path) -> None:
    compacted(tmp_path / "s.jsonl", 3)
    with Session.open(tmp_path / "s.jsonl") as session, pytest.raises(FoldError):
        session.append(Fold(id="x", level="micro", changes=(ReplaceBlocks((Target("never said", 0),)),)))
    with Session.open(tmp_path / "s.jsonl") as session:
        session.append(Fold(id="x", level="partial", changes=(HideSpan("e1-3", "e1-2", (said("odd", "a stand-in among the hidden"),)),)))
        assert session.log.base == 0
        assert session.view == view_of(session.log)
        shown = session.view
    with Session.open(tmp_path / "s.jsonl") as session:
        assert session.view == shown
        assert session.log.base == 0, "such a fold makes the file be read whole"


@pytest.mark.parametrize(
    "mark", [b'{"type":"mark","fold":"f2","offset":%d,"entries":3,"line":2,"first":"e0-0"}\n', b'{"type":"mark","fold":"f2","offset":%d}\n']
)
def test_k2_a_mark_that_does_not_fit_makes_the_file_be_read_whole(tmp_path: Path, mark: bytes) -> None:
    path = tmp_path / "s.jsonl"
    log = compacted(path, 3)
    for offset in (1, 100, 10**12, -5):
        whole = path.read_bytes()
        path.write_bytes(whole + mark % offset)
        assert view_of(read_session(path, history=False).log) == view_of(log)
        path.write_bytes(whole)


def test_k2_a_mark_is_found_wherever_the_pieces_of_the_file_are_parted(tmp_path: Path) -> None:
    path = session_of(tmp_path / "s.jsonl", said("a"), said("b"), compaction("f", "a"))
    start = path.read_bytes()
    mark = start[start.rindex(b"\n", 0, -1) :]
    frame = len(encode_line(said("z", "")))
    for parted_at in range(-2, len(mark) + 3):
        path.write_bytes(start + encode_line(said("z", "x" * (CHUNK - (len(mark) - parted_at) - frame))))
        assert path.stat().st_size - CHUNK == len(start) - len(mark) + parted_at
        assert read_session(path, history=False).log.base == 1


def test_k2_a_file_edited_by_hand_in_what_is_hidden_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    compacted(path, 3)
    lines = path.read_bytes().split(b"\n")
    del lines[1]
    path.write_bytes(b"\n".join(lines))
    data = read_session(path, history=False)
    assert data.log.base == 0
    assert view_of(data.log) == view_of(read_session(path).log)


def test_k2_a_whole_written_log_is_resumed_in_part_too(tmp_path: Path) -> None:
    log = compacted(tmp_path / "s.jsonl", 3)
    write_session(tmp_path / "again.jsonl", log)
    data = read_session(tmp_path / "again.jsonl", history=False)
    assert data.log.base == 26
    assert view_of(data.log) == view_of(log)
