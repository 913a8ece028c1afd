"""What befalls the file while a session is open: real ends of space, deletions and changes, no doubles (K5)."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fivefold.core.view import view_of
from fivefold.errors import StoreError, WriteError
from fivefold.store.jsonl import read_session, write_session
from fivefold.store.session import Session
from tests.store.made import HEAD, compaction, log_of, said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "s.jsonl"


@pytest.fixture
def session(path: Path) -> Iterator[Session]:
    """A session of one entry. Each test ends with it closed or closable."""
    path.parent.mkdir()
    session = Session.create(path, HEAD)
    session.append(said("a"))
    yield session
    session.close()


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """No file can grow beyond ``size`` bytes: a write across it is a short one, the next one fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room", [0, 1, 30])
def test_k5_where_there_is_no_room_the_conversation_goes_on_and_is_written_later(session: Session, path: Path, room: int) -> None:
    whole = path.read_bytes()
    heard: list[WriteError] = []
    session._on_problem = heard.append
    with files_end_at(len(whole) + room):
        session.append(said("b"))
        assert path.read_bytes() == whole, "a short write is taken back"
        session.append(said("c"), compaction("f", "b"))
        session.append(said("d"))
    assert session.waiting == 4
    assert session.log == log_of(said("a"), said("b"), said("c"), compaction("f", "b"), said("d"))
    assert session.view == view_of(session.log)
    assert heard == session.problems
    assert len(heard) == 1, "said once while it lasts"
    assert "s.jsonl: cannot be written: File too large; what is new waits in memory and is tried again" in str(heard[0])
    session.append(said("e"))
    assert session.waiting == 0
    assert read_session(path).log == session.log
    assert view_of(read_session(path, history=False).log) == session.view


def test_k5_what_waits_is_tried_again_at_close_and_without_records(session: Session, path: Path) -> None:
    with files_end_at(path.stat().st_size):
        session.append(said("b"))
        session.append()
    session.append()
    assert read_session(path).log == session.log == log_of(said("a"), said("b"))
    with files_end_at(path.stat().st_size):
        session.append(said("c"))
    session.close()
    assert read_session(path).log == log_of(said("a"), said("b"), said("c"))
    assert len(session.problems) == 2, "each new trouble is said"


def test_k5_what_is_in_no_file_at_the_end_is_said(session: Session, path: Path) -> None:
    with files_end_at(path.stat().st_size):
        session.append(said("b"))
        session.close()
    assert "closed with records that are in no file" in str(session.problems[-1])
    write_session(path, session.log)
    assert read_session(path).log == log_of(said("a"), said("b"))


def test_k5_a_deleted_file_is_written_anew_in_full(session: Session, path: Path) -> None:
    before = path.read_bytes()
    path.unlink()
    session.append(said("b"))
    assert path.read_bytes().startswith(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [str(problem) for problem in session.problems] == [f"{path}: was deleted while it was open; written anew in full"]
    session.append(said("c"))
    assert read_session(path).log == session.log == log_of(said("a"), said("b"), said("c"))
    assert sorted(p.name for p in path.parent.iterdir()) == ["s.jsonl", "s.jsonl.lock"]


def test_k5_a_deleted_file_of_a_session_loaded_in_part_comes_back_whole(session: Session, path: Path) -> None:
    session.append(said("b"), compaction("f", "a"), said("c"))
    session.close()
    log = read_session(path).log
    with Session.open(path) as again:
        assert again.log.base == 1
        path.unlink()
        assert again.history() == log
        again.append(said("d"))
        again.undo("f")
        assert again.log.base == 0
    assert read_session(path).log == again.log
    assert list(again.log.records())[: log.record_count] == list(log.records())


def test_k5_what_waits_keeps_its_place_when_the_history_is_loaded(session: Session, path: Path) -> None:
    session.append(said("b"), compaction("f", "a"))
    session.close()
    with Session.open(path) as again:
        with files_end_at(path.stat().st_size):
            again.append(said("c"))
            again.append(said("d"))
            again.undo("f")
        assert (again.log.base, again.waiting) == (0, 3)
        again.append(compaction("g", "c"))
    data = read_session(path, history=False)
    assert data.log.base == 3, "the mark points at the entry that had waited"
    assert view_of(data.log) == view_of(read_session(path).log) == again.view


def test_k5_a_lost_folder_is_said_and_waited_for(session: Session, path: Path) -> None:
    away = path.parent.with_name("away")
    path.parent.rename(away)
    session.append(said("b"))
    assert "cannot be written: No such file or directory" in str(session.problems[-1])
    away.rename(path.parent)
    session.append(said("c"))
    assert (session.waiting, len(session.problems)) == (0, 1)
    assert read_session(path).log == session.log


def test_k5_a_path_that_is_no_longer_in_a_folder_is_said(session: Session, path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))
    path.parent.write_text("a file where the folder was")
    session.append(said("b"))
    assert "cannot be written: Not a directory" in str(session.problems[-1])
    assert session.waiting == 1


@pytest.mark.parametrize("what", [b"", b"something else entirely\n"])
def test_k5_another_file_in_its_place_is_left_as_it_is(session: Session, path: Path, what: bytes) -> None:
    other = path.with_name("other")
    other.write_bytes(what)
    os.replace(other, path)
    session.append(said("b"))
    session.append(said("c"))
    session.close()
    assert path.read_bytes() == what
    assert "another file was put in its place, which is left as it is" in str(session.problems[0])
    assert len(session.problems) == 2
    assert session.waiting == 2


def test_k5_a_file_that_another_program_wrote_to_is_never_written_over(session: Session, path: Path) -> None:
    whole = path.read_bytes()
    for changed in (whole + b"a line of somebody else\n", whole[:-10], b""):
        path.write_bytes(changed)
        session.append(said(f"n{len(changed)}"))
        assert path.read_bytes() == changed
        assert f"changed by another program ({len(changed)} bytes, {len(whole)} expected), and left as it is" in str(session.problems[-1])
    assert session.waiting == 3
    path.write_bytes(whole)
    session.append()
    assert session.waiting == 0
    assert read_session(path).log == session.log


def test_k5_a_file_deleted_when_there_is_no_room_waits_and_comes_back(session: Session, path: Path) -> None:
    before = path.read_bytes()
    path.unlink()
    with files_end_at(10):
        session.append(said("b"))
    assert list(path.parent.glob("*s.jsonl*")) == [Path(f"{path}.lock")], "no half file, no rest of one"
    assert session.waiting == 1
    session.append(said("c"))
    assert path.read_bytes().startswith(before)
    assert read_session(path).log == session.log


def test_k5_permissions_taken_away_do_not_lose_what_is_said(session: Session, path: Path) -> None:
    """The descriptor stays good; root would not be refused either way."""
    path.chmod(0)
    session.append(said("b"))
    path.chmod(0o600)
    assert (session.waiting, session.problems) == (0, [])
    assert read_session(path).log == session.log


def test_k5_a_session_that_cannot_be_made_or_mended_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"new\.jsonl"):
        Session.create(tmp_path / "no folder" / "new.jsonl", HEAD)
    with files_end_at(10), pytest.raises(StoreError, match=r"new\.jsonl: cannot be made: File too large"):
        Session.create(tmp_path / "new.jsonl", HEAD)
    assert not list(tmp_path.glob("*.jsonl")) and not list(tmp_path.glob(".*"))
    Session.create(tmp_path / "new.jsonl", HEAD).close()
