"""Damaged session files: read as far as they go, never an error of another kind (Z3, H4)."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from fivefold.core.messages import JSON
from fivefold.core.view import view_of
from fivefold.errors import InputError
from fivefold.formats import session as session_format
from fivefold.formats.source import Source
from fivefold.store.jsonl import read_session, write_session
from fivefold.store.session import Session
from tests.store.made import all_kinds, compaction, log_of, said

ROUNDS = int(os.environ.get("FIVEFOLD_FUZZ_ROUNDS", "300"))
ODD: tuple[JSON, ...] = (None, True, -1, 2**70, 1e300, "", "\ud800", [], [[]], {}, {"type": "entry"}, "x" * 1000)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fuzz") / "s.jsonl"
    write_session(path, log_of(*all_kinds(), compaction("f4", "e5"), said("e8")))
    return path.read_bytes()


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A copy with one kind of damage."""
    kind = rng.randrange(5)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        at = rng.randrange(len(data))
        return data[:at] + rng.randbytes(rng.randint(1, 9)) + data[at + rng.randint(0, 9) :]
    lines = data.split(b"\n")
    i = rng.randrange(len(lines) - 1)
    if kind == 2:
        rng.shuffle(lines)
    elif kind == 3:
        lines[i] = lines[rng.randrange(len(lines))]
    else:
        value = json.loads(lines[i])
        change(value, rng)
        lines[i] = json.dumps(value).encode()
    return b"\n".join(lines)


def change(value: JSON, rng: random.Random) -> None:
    """Drop a key or change the type of a value, somewhere."""
    while isinstance(value, dict | list) and value:
        key = rng.choice(list(value) if isinstance(value, dict) else list(range(len(value))))
        inner = value[key]  # type: ignore[index, call-overload]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.7:
            value = inner
            continue
        if rng.random() < 0.3:
            del value[key]  # type: ignore[arg-type]
        else:
            value[key] = rng.choice(ODD)  # type: ignore[index, call-overload]
        return


def test_z3_whatever_the_damage_only_input_errors_come_and_part_shows_what_whole_shows(tmp_path: Path, whole: bytes) -> None:
    """FIVEFOLD_FUZZ_ROUNDS sets the number of damaged copies."""
    rng = random.Random(5)
    path = tmp_path / "s.jsonl"
    read = refused = damaged_lines = 0
    for _ in range(ROUNDS):
        path.write_bytes(damaged(whole, rng))
        try:
            source = Source(path)
            if session_format.recognises(source):
                session_format.read(source)
        except InputError:
            pass
        try:
            data = read_session(path)
            part = read_session(path, history=False)
        except InputError:
            refused += 1
            continue
        read += 1
        if data.bad_lines:  # damage in what is hidden may cost the whole log a fold; the part does not see it
            damaged_lines += 1
        else:
            assert [e.blocks for e in view_of(part.log).entries()] == [e.blocks for e in view_of(data.log).entries()]
        with Session.open(path, fsync="never") as session:
            session.append(said("new one"))
            assert session.problems == []
        assert "new one" in [entry.id for entry in read_session(path, history=False).log.entries()]
    assert read > ROUNDS / 2 and refused > 0 and ROUNDS / 10 < damaged_lines < read - ROUNDS / 10
