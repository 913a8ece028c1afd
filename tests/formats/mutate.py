"""Damage for readers: copies of a file with bytes cut, keys dropped, types changed and junk put in, by a fixed seed."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fivefold.core.transcript import Transcript
from fivefold.core.view import view_of
from fivefold.errors import InputError
from fivefold.formats.source import Source

JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**70,
    1e308,
    "",
    "x",
    "0",
    "\u2603",
    [],
    {},
    [[]],
    [None],
    {"type": "text"},
    {"id": 1},
    float("nan"),
    float("inf"),
)


def _containers(value: Any) -> list[Any]:
    """Every object and list in a JSON value."""
    found = [value]
    for here in found:
        found.extend(item for item in (here.values() if isinstance(here, dict) else here) if isinstance(item, dict | list))
    return found


def mutated(data: bytes, chance: random.Random) -> bytes:
    """One damaged copy of a JSON or JSON-lines file, or of a zip (of which only bytes are changed)."""
    how = chance.randrange(2 if data.startswith(b"PK") else 4)
    if how == 0:
        return data[: chance.randrange(len(data))]
    if how == 1:
        place = chance.randrange(len(data))
        return data[:place] + chance.randbytes(chance.randrange(1, 6)) + data[place + chance.randrange(4) :]
    try:
        values = [json.loads(data)]
    except ValueError:
        values = [json.loads(line) for line in data.splitlines()]
    containers = [container for container in _containers(values) if container]
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        container = chance.choice(containers)
        if not container:
            continue
        key = chance.choice(list(container)) if isinstance(container, dict) else chance.randrange(len(container))
        if chance.random() < 0.3:
            del container[key]
        else:
            container[key] = copy.deepcopy(chance.choice(JUNK))
    return b"\n".join(json.dumps(value).encode() for value in values)


def only_input_errors(
    read: Callable[[Source], Transcript], file: Path, folder: Path, count: int, *, recognises: Callable[[Source], bool] | None = None
) -> int:
    """Read ``count`` damaged copies of a file; anything but InputError escapes and fails the test. Says how many were read.

    What is read must also have a view: its folds refer to what is there.
    """
    data = file.read_bytes()
    folder.mkdir(exist_ok=True)
    chance = random.Random(20)
    damaged = folder / file.name
    good = 0
    for _ in range(count):
        damaged.write_bytes(mutated(data, chance))
        try:
            if recognises is not None:
                recognises(Source(damaged))
            found = read(Source(damaged))
        except InputError:
            continue
        for conversation in found.conversations:
            view_of(conversation.log)
        good += 1
    return good


def written(folder: Path, value: Any, name: str = "file.json") -> Source:
    """A source that holds a value as one JSON document with line ends."""
    path = folder / name
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return Source(path)


def loose(value: Any) -> Any:
    """A JSON value for a test to look into without asking for its type at every step."""
    return value


def refused(read: Callable[[Source], Transcript], source: Source) -> str:
    """The words with which a file is refused."""
    with pytest.raises(InputError) as caught:
        read(source)
    return str(caught.value)
