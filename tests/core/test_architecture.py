"""ARCHITECTURE.md against the code: the tables are those of the code, each drawing is what happens, each module has its row."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from fivefold.core import engine
from fivefold.core.actions import Emit
from fivefold.core.entries import Entry, Target
from fivefold.core.events import CompactAsked, Event, FilesRead, Replied, RequestDue, RequestRejected, RestoredFile, Summarized
from fivefold.core.levels import auto
from fivefold.core.log import Log
from fivefold.core.state import Phase, State
from fivefold.core.view import view_of
from tests.build import assistant, call, result, user
from tests.rules.talk import setup_of, too_long, words

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fivefold"
DOCUMENT = ROOT / "ARCHITECTURE.md"
TABLE = re.compile(r"^\| event \|.*\n(?:\|.*\n)+", re.M)


@pytest.fixture
def text() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


# --- the legality table


def drawn() -> str:
    """``LEGAL`` as a table: the events that are legal in the same phases share a row, in the order in which events.py lists them."""
    rows: dict[tuple[bool, ...], list[str]] = {}
    for event in get_args(Event):
        rows.setdefault(tuple(event in engine.LEGAL[phase] for phase in Phase), []).append(f"`{event.__name__}`")
    head = ["event", *(f"`{phase.value}`" for phase in Phase)]
    lines = [head, ["---", *(":-:" for _ in Phase)]]
    lines += [[", ".join(events), *("●" if legal else " " for legal in where)] for where, events in rows.items()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def test_what_the_architecture_says_is_legal_is_legal(text: str) -> None:
    """FIVEFOLD_PIN=1 draws the table anew."""
    assert len(TABLE.findall(text)) == 1
    if os.environ.get("FIVEFOLD_PIN"):
        DOCUMENT.write_text(TABLE.sub(lambda _: drawn(), text), encoding="utf-8")
    else:
        assert TABLE.findall(text) == [drawn()]


def test_each_event_is_legal_somewhere_and_a_cancel_and_a_persons_words_are_everywhere() -> None:
    assert set(get_args(Event)) == set().union(*engine.LEGAL.values())
    row = next(line for line in drawn().splitlines() if "`Said`" in line)
    assert "`Cancelled`" in row and row.count("●") == len(Phase)


# --- the rungs


@pytest.mark.parametrize("method", ["structural", "model", "native"])
def test_a8_the_rungs_are_those_of_the_ladder(text: str, method: str) -> None:
    row = re.search(rf"^\| (?:`\w+`, )*`{method}`(?:, `\w+`)* \| (.*) \|$", text, re.M)
    assert row is not None
    said = re.findall(r"`([^`]+)`", row[1])
    state = engine.begin(Log(), setup_of(policy={"summary": {"method": method}}))
    rungs = auto.rungs(state)
    assert [rung.name for rung in rungs if rung.method == method] == said
    assert row[1].endswith("structural") == (method != "structural") == (rungs[-1].method != method)
    with_memory = auto.rungs(state._replace(setup=msgspec.structs.replace(state.setup, memory=True)))
    in_front = re.search(r"where there is a session memory: (`[^.]*`)\.", text)
    assert in_front is not None
    assert [rung.name for rung in with_memory] == [*re.findall(r"`([^`]+)`", in_front[1]), *(rung.name for rung in rungs)]


# --- the drawings


def entries() -> list[Entry]:
    """What both drawings begin with: three large results, and ``u3``, which nothing has answered."""
    return [
        user("u1", "fix it"),
        assistant("a1", call("t1", "Read", file_path="src/one.py"), api_id="m1"),
        user("r1", result("t1", words(900))),
        assistant("a2", call("t2"), api_id="m2"),
        user("r2", result("t2", words(900))),
        user("u2", "now the docs"),
        assistant("a3", call("t3", "Grep"), api_id="m3"),
        user("r3", result("t3", words(900))),
        assistant("b3", "done", api_id="m4"),
        user("u3", "go on"),
    ]


def drawing(text: str, begins: str) -> list[str]:
    """The lines of the block with a line that begins so."""
    blocks: list[str] = re.findall(r"(?ms)^```\n(.*?)^```$", text)
    found = [block.splitlines() for block in blocks if any(line.startswith(begins) for line in block.splitlines())]
    assert len(found) == 1
    return found[0]


def shown(state: State) -> list[str]:
    """The view as it is drawn: ``b1`` boundary, ``s1`` summary, ``x1`` put back, ``n1`` note; a star where less is shown than was said."""
    assert state.view == view_of(state.log)
    short = {"boundary": "b1", "summary": "s1", "restored1": "x1"}
    names = []
    for item in state.view.shown():
        id = item.entry.id
        name = "n1" if id.startswith("state-") else short.get(id.rpartition(".")[2], id)
        names.append(name if item.entry == item.original else f"{name}*")
    return names


def test_the_compaction_that_is_drawn_is_what_happens(text: str) -> None:
    lines = drawing(text, "fold   f1 = ")
    log, view = lines[0].split()[1:], lines[-1].partition(" = ")[0].split()[1:-1]
    assert lines[-1].startswith("view") and lines[-2] == f"{lines[0]} | f1 | n1"
    state = engine.begin(Log(records=entries()), msgspec.structs.replace(setup_of(20_000), restores=True))
    assert shown(state) == log
    state, _ = engine.step(state, CompactAsked(now=1.0))
    state, _ = engine.step(state, Summarized(text="…", method="structural", first="u1", last="r2", middle=((Target("r3", 0), "short"),)))
    state, _ = engine.step(state, FilesRead(files=(RestoredFile("src/one.py", "x = 1"),)))
    assert shown(state) == view
    assert [type(record).__name__ for record in state.log.records(len(log))] == ["Fold", "Entry"]
    assert [type(change).__name__ for change in state.log.folds[0].fold.changes] == re.findall(r"(\w+)\(", lines[2])
    assert "n1" not in [name for name, entry in zip(shown(state), state.view.entries(), strict=True) if entry in list(state.view.sent())]


def test_r2_the_retry_that_is_drawn_is_what_happens(text: str) -> None:
    head, *rows = drawing(text, "event  ")
    columns = [match.start() for match in re.finditer(r"\S+", head)]
    state = engine.begin(Log(records=entries()), setup_of(20_000))
    events: list[Event] = [
        RequestDue(now=1.0),
        RequestRejected(now=2.0, rejection=too_long(21_180, 20_000)),
        Summarized(text="…", method="structural", first="u1", last="r2"),
        Replied(now=3.0, entries=(assistant("a4", "ok"),)),
    ]
    found = []
    for event in events:
        state, actions = engine.step(state, event)
        done = " ".join(type(action).__name__ for action in actions if not isinstance(action, Emit))
        found.append((type(event).__name__, state.phase.value, done, " ".join(shown(state))))
    ends = [*columns[1:], None]
    assert [tuple(row[start:end].strip() for start, end in zip(columns, ends, strict=True)) for row in rows] == found


# --- where what is


def named(text: str) -> Iterator[Path]:
    """The paths in the first column of the last table; a bare name stands in the folder of the one before it."""
    rows = re.findall(r"^\| (`.*?) \|", text[text.index("## Where what is") :], re.M)
    for row in rows:
        folder = ROOT
        for name in re.findall(r"`([^`]+)`", row):
            path = ROOT / name if "/" in name and (ROOT / name).exists() else folder / name
            folder = path.parent
            yield path


def test_each_path_that_the_table_names_is_there(text: str) -> None:
    paths = list(named(text))
    assert len(paths) > 40
    assert [path.relative_to(ROOT).as_posix() for path in paths if not path.exists()] == []


def test_each_module_has_its_row_in_the_table(text: str) -> None:
    """A new part, or a new module of the core or of the drivers, is not left out. Inside a folder that has a row of its own, and beside
    the modules of ``summarize`` that are named, the rest is found by looking."""
    paths = set(named(text))
    modules = [path for path in SOURCE.rglob("*.py") if not path.name.startswith("__") and path.parent.name != "summarize"]
    missing = [path for path in modules if path not in paths and not paths & set(path.parents)]
    assert [path.relative_to(SOURCE).as_posix() for path in missing] == []


def defined() -> set[str]:
    """Names of classes, functions, constants and aliases of the source."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found.add(name)
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    found.add(name)
    return found


def test_the_names_of_code_that_the_text_uses_exist(text: str) -> None:
    """What was renamed in the code is renamed here: classes, constants, private functions, calls, fields of the policy."""
    names = set(re.findall(r"`([A-Z]\w+|_\w+)`|`(?:\w+\.)?(\w+)\(", text))
    used = {name for pair in names for name in pair if name}
    assert {"LEGAL", "KEPT", "Tracking", "_put", "with_records"} <= used
    assert used - defined() == {"Any"}, "Python's own"


def test_p1_the_fields_of_the_policy_that_the_text_names_exist(text: str) -> None:
    policy = setup_of().policy
    fields = {f"{section}.{field}" for section in policy.__struct_fields__ for field in getattr(policy, section).__struct_fields__}
    sections = "|".join(policy.__struct_fields__)
    used = set(re.findall(rf"`((?:{sections})\.(?!py`)\w+)`", text))
    assert "auto.max_failures" in used
    assert used - fields == set()
