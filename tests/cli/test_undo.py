"""``fivefold undo``: what comes back, and what it refuses (X5, Z2)."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from fivefold.cli.undo import UndoReport
from fivefold.core.entries import Entry
from fivefold.core.view import view_of
from fivefold.errors import FoldError, InputError, LockedError
from fivefold.formats.registry import read_transcript
from fivefold.store.session import Session
from tests.cli.made import LONG, done, inside, messages_file, session, told
from tests.cli.run import fivefold

ROOT = Path(__file__).parents[2]


def sent(path: Path) -> list[Entry]:
    """What of a session goes to the model."""
    return list(view_of(read_transcript(path).main.log).sent())


def twice_compacted(folder: Path) -> Path:
    """Results cleared by one run, the rest summarised by another."""
    path = session(folder)
    done("compact", path, "--window", "32000")
    done("compact", path, "--window", "16000")
    return path


def test_z2_json_has_what_the_schema_says(tmp_path: Path) -> None:
    path = session(tmp_path, "s.jsonl", "--window", "16000")
    report = msgspec.json.decode(done("undo", path, "--json"), type=UndoReport, strict=True)
    assert (report.schema, report.file, report.in_force) == ("fivefold.undo/1", str(path), ())
    assert [row.level for row in report.undone] == ["manual"]
    assert report.tokens_before < 6_000 < 40_000 < report.tokens_after
    assert report.came_back > 40, "the summary stood for most of sixty-three messages"


def test_z2_the_schema_is_as_documented() -> None:
    documented = ROOT / "docs" / "schema" / "undo-1.json"
    now = msgspec.json.format(msgspec.json.encode(msgspec.json.schema(UndoReport)), indent=2).decode() + "\n"
    if os.environ.get("FIVEFOLD_PIN"):
        documented.write_text(now, encoding="utf-8")
    assert now == documented.read_text(encoding="utf-8")


def test_x5_the_last_fold_is_taken_back_alone(tmp_path: Path) -> None:
    path = twice_compacted(tmp_path)
    first = told("undo", path)
    assert [row["level"] for row in first["undone"]] == ["manual"] and [row["level"] for row in first["in_force"]] == ["micro"]
    assert first["came_back"] > 0
    second = told("undo", path)
    assert [row["level"] for row in second["undone"]] == ["micro"] and second["in_force"] == []
    assert (second["came_back"], second["in_full"]) == (0, 25), "results shown in full again; five were never cleared"


@pytest.mark.parametrize("by", ["--all", "id", "beginning"])
def test_x5_all_folds_or_one_and_what_stands_on_it(tmp_path: Path, by: str) -> None:
    plain = [entry.blocks for entry in sent(messages_file(tmp_path))]
    path = twice_compacted(tmp_path)
    oldest = read_transcript(path).main.log.folds[0].fold.id
    options = {"--all": ["--all"], "id": ["--fold", oldest], "beginning": ["--fold", oldest[:-3]]}[by]
    report = told("undo", path, *options)
    assert [row["level"] for row in report["undone"]] == ["manual", "micro"], "the newest first"
    assert [entry.blocks for entry in sent(path)] == plain


def test_k1_nothing_is_taken_out_of_the_file(tmp_path: Path) -> None:
    path = session(tmp_path, "s.jsonl", "--window", "16000")
    before = path.read_bytes()
    done("undo", path)
    assert path.read_bytes().startswith(before)
    assert "Primary request" in done("recall", path, "primary request intent"), "the summary can still be found"


def test_x5_compacted_anew_after_an_undo(tmp_path: Path) -> None:
    path = session(tmp_path, "s.jsonl", "--window", "16000")
    folded = sent(path)
    done("undo", path)
    report = told("compact", path, "--window", "16000")
    assert report["success"] and report["output"]["in_place"]
    assert [entry.blocks for entry in sent(path)] == [entry.blocks for entry in folded]


def test_v3_no_window_has_to_be_known(tmp_path: Path) -> None:
    path = session(tmp_path, "s.jsonl", "--window", "16000")
    assert read_transcript(path).main.log.head.model is None
    assert "tokens in view" in done("undo", path)


def test_z2_other_files_are_refused_with_the_way_out(tmp_path: Path) -> None:
    before = LONG.read_bytes()
    ran = fivefold("undo", LONG)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "claude-code file, which fivefold never changes" in ran.stderr and "fivefold compact" in ran.stderr and "-o OUT" in ran.stderr
    assert LONG.read_bytes() == before
    assert isinstance(inside("undo", tmp_path / "none").exception, InputError)


def test_z2_what_is_not_in_force_is_refused(tmp_path: Path) -> None:
    path = session(tmp_path)
    before = path.read_bytes()
    for options, words in (((), "no fold is in force"), (("--all",), "no fold is in force"), (("--fold", "x"), "in force are: none")):
        failed = inside("undo", path, *options)
        assert isinstance(failed.exception, FoldError) and words in str(failed.exception)
    assert path.read_bytes() == before
    assert inside("undo", path, "--all", "--fold", "x").exit_code == 2
    folder = tmp_path / "two"
    folder.mkdir()
    failed = inside("undo", twice_compacted(folder), "--fold", "fold-")
    assert isinstance(failed.exception, FoldError) and "2 folds begin with 'fold-'" in str(failed.exception)


def test_k3_a_session_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    path = session(tmp_path, "s.jsonl", "--window", "16000")
    with Session.open(path):
        assert isinstance(inside("undo", path).exception, LockedError)


def test_k1_a_torn_end_is_said_and_kept(tmp_path: Path) -> None:
    path = session(tmp_path, "s.jsonl", "--window", "16000")
    with path.open("ab") as file:
        file.write(b'{"type":"entry","id":"half')
    ran = fivefold("undo", path, "--json")
    assert ran.returncode == 0 and json.loads(ran.stdout)["undone"]
    assert "had not been written whole" in ran.stderr and (tmp_path / "s.jsonl.torn-1").exists()
