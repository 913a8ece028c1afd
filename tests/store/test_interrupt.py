"""Ctrl-C at any moment of an append: log, view, what waits and the file stay one (K1, K5)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from fivefold.core.entries import Record
from fivefold.core.view import view_of
from fivefold.store import session as session_module
from fivefold.store.jsonl import read_session, write_session
from fivefold.store.session import Session
from tests.store.made import HEAD, compaction, log_of, said

APPENDS: dict[str, tuple[Record, ...]] = {
    "an entry": (said("x"),),
    "several records": (said("x"), compaction("fx", "b"), said("y")),
}


@contextmanager
def interrupted(at: int, *, opcodes: bool) -> Iterator[list[int]]:
    """KeyboardInterrupt at step ``at`` of what runs in fivefold; each line is a step, or each bytecode of the session."""
    steps = [0]

    def trace(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if "fivefold" not in frame.f_code.co_filename or "tests" in frame.f_code.co_filename:
            return None
        fine = opcodes and frame.f_code.co_filename == session_module.__file__
        frame.f_trace_opcodes = fine
        if event == ("opcode" if fine else "line"):
            steps[0] += 1
            if steps[0] == at:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)


def check_interrupted_at(path: Path, at: int, records: tuple[Record, ...], *, opcodes: bool) -> bool:
    """One session of the file, one interrupt, and on. Whether the interrupt came at all."""
    partial = len(read_session(path).log.folds) > 0
    with Session.open(path, fsync="never") as session:
        assert (session.log.base > 0) == partial
        before = session.history().record_count
        came = False
        with interrupted(at, opcodes=opcodes):
            try:
                session.append(*records)
            except KeyboardInterrupt:
                came = True
        assert session.history().record_count - before in (0, len(records)), "all or none"
        assert session.view == view_of(session.log)
        session.append(said("after"))
        session.append(said("p"), said("q"))
        if session.log.find("x") is None:
            session.append(*records)
        session.append(compaction("last", "after"))
        assert session.problems == []
        assert session.waiting == 0
        log = session.history()
    data = read_session(path)
    assert (data.torn, data.bad_lines) == (None, ())
    assert data.log == log
    assert view_of(data.log) == view_of(log)
    assert view_of(read_session(path, history=False).log) == session.view == view_of(log)
    return came


@pytest.mark.parametrize("opcodes", [False, True], ids=["lines", "bytecodes"])
@pytest.mark.parametrize("before", [(), (compaction("f0", "a"),)], ids=["whole", "loaded in part"])
@pytest.mark.parametrize("records", APPENDS.values(), ids=APPENDS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a file that the interrupt left to the collector
def test_k1_an_interrupt_at_each_step_of_an_append_loses_nothing(
    tmp_path: Path, records: tuple[Record, ...], before: tuple[Record, ...], opcodes: bool
) -> None:
    """Of the longer ones every third step, at another offset each."""
    path = tmp_path / "s.jsonl"
    write_session(path, log_of(said("a"), said("b"), *before))
    start = path.read_bytes()
    stride = 3 if opcodes and len(records) > 1 else 1
    at = 1 + bool(before)
    while check_interrupted_at(path, at, records, opcodes=opcodes):
        path.write_bytes(start)
        at += stride
    assert at > 60, "it did come, often"


@pytest.mark.parametrize("kept", ["all", "some", "one write and some"])
def test_k1_what_an_interrupt_left_in_the_file_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str) -> None:
    """The write itself is done, wholly or in part, and only then comes the interrupt."""
    path = tmp_path / "s.jsonl"
    write = os.write

    def interrupted_write(fd: int, data: bytes) -> int:
        size = {"all": len(data), "some": 10, "one write and some": data[: bytes(data).index(b"\n") + 20].__len__()}[kept]
        write(fd, bytes(data)[:size])
        raise KeyboardInterrupt

    with Session.create(path, HEAD, fsync="never") as session:
        session.append(said("a"))
        with monkeypatch.context() as patch:
            if kept == "one write and some":
                with patch.context() as nowhere:
                    nowhere.setattr(os, "write", lambda fd, data: (_ for _ in ()).throw(KeyboardInterrupt()))
                    with pytest.raises(KeyboardInterrupt):
                        session.append(said("b0"))
            patch.setattr(os, "write", interrupted_write)
            with pytest.raises(KeyboardInterrupt):
                session.append(said("b"))
        session.append(said("c"))
        assert session.problems == []
        log = session.log
    assert [entry.id for entry in log.entries()][-2:] == ["b", "c"]
    assert read_session(path).log == log


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_k1_a_deleted_file_is_written_anew_whenever_it_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    for at in range(1, 10_000):
        session = Session.create(path, HEAD, fsync="never")
        session.append(said("a"))
        path.unlink()
        came = False
        with interrupted(at, opcodes=False):
            try:
                session.append(said("b"))
            except KeyboardInterrupt:
                came = True
        session.append(said("c"))
        log = session.log
        session.close()
        assert read_session(path).log == log
        for left in tmp_path.iterdir():
            left.unlink()
        if not came:
            break
    assert at > 60
