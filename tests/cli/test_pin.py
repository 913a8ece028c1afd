"""``fivefold pin``: what is kept verbatim, its budget, and what is refused (X7, Z2)."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from fivefold.cli.pin import PinReport
from fivefold.core.messages import Text
from fivefold.core.view import view_of
from fivefold.errors import InputError, PinError, UnknownModelError
from fivefold.formats.registry import read_transcript
from tests.cli.made import LONG, REQUEST, done, inside, session, told

ROOT = Path(__file__).parents[2]
WINDOW = ("--window", "16000")
RULE = "Every public name of the engine keeps its <spelling>, whoever asks."


def test_z2_json_has_what_the_schema_says(tmp_path: Path) -> None:
    path = session(tmp_path)
    report = msgspec.json.decode(done("pin", path, "m1", *WINDOW, "--json"), type=PinReport, strict=True)
    assert (report.schema, report.action, report.name) == ("fivefold.pin/1", "pinned", "m1")
    assert [(row.name, row.text) for row in report.pins] == [("m1", REQUEST)]
    assert 0 < report.tokens == report.pins[0].tokens < report.budget == 1_072, "a tenth of the threshold of 10,720"


def test_z2_the_schema_is_as_documented() -> None:
    documented = ROOT / "docs" / "schema" / "pin-1.json"
    now = msgspec.json.format(msgspec.json.encode(msgspec.json.schema(PinReport)), indent=2).decode() + "\n"
    if os.environ.get("FIVEFOLD_PIN"):
        documented.write_text(now, encoding="utf-8")
    assert now == documented.read_text(encoding="utf-8")


def test_x7_what_is_pinned_stands_verbatim_in_what_a_compaction_leaves(tmp_path: Path) -> None:
    """A text that nobody said, and a message from the middle that would be folded."""
    middle = "Next is src/engine/part_10.py."
    bare, path = session(tmp_path, "bare.jsonl"), session(tmp_path)
    done("pin", path, "--text", RULE, *WINDOW)
    assert told("pin", path, "message:20", *WINDOW)["pins"][1]["text"] == middle
    for file, wanted in ((bare, False), (path, True)):
        assert told("compact", file, *WINDOW)["success"]
        shown = [
            block.text for entry in view_of(read_transcript(file).main.log).sent() for block in entry.blocks if isinstance(block, Text)
        ]
        for text in (RULE, middle):
            assert any(text in one for one in shown) == wanted, text


def test_x7_pins_are_there_when_the_session_is_opened_again(tmp_path: Path) -> None:
    path = session(tmp_path)
    done("pin", path, "--text", RULE, *WINDOW)
    done("pin", path, "m1", *WINDOW)
    listed = told("pin", path, *WINDOW)
    assert [row["name"] for row in listed["pins"]] == ["text 1", "m1"] and listed["action"] == "listed"
    assert told("pin", path, "--list", *WINDOW)["pins"] == listed["pins"]
    assert RULE in done("pin", path, *WINDOW)


def test_x7_taken_away_it_is_gone(tmp_path: Path) -> None:
    path = session(tmp_path)
    done("pin", path, "--text", RULE, *WINDOW)
    report = told("pin", path, "--remove", "text 1", *WINDOW)
    assert (report["action"], report["name"], report["pins"], report["tokens"]) == ("removed", "text 1", [], 0)
    assert RULE not in told("compact", path, *WINDOW)["summary"]
    failed = inside("pin", path, "--remove", "text 1", *WINDOW)
    assert isinstance(failed.exception, PinError) and "nothing is pinned" in str(failed.exception)


def test_x7_a_text_pinned_later_takes_no_other_ones_place(tmp_path: Path) -> None:
    path = session(tmp_path)
    for text in ("first rule", "second rule"):
        done("pin", path, "--text", text, *WINDOW)
    done("pin", path, "--remove", "text 1", *WINDOW)
    done("pin", path, "--text", "third rule", *WINDOW)
    assert [row["text"] for row in told("pin", path, *WINDOW)["pins"]] == ["second rule", "third rule"]


def test_x7_over_the_budget_nothing_is_pinned(tmp_path: Path) -> None:
    path = session(tmp_path)
    before = path.read_bytes()
    failed = inside("pin", path, "--text", "word " * 3_000, *WINDOW)
    assert isinstance(failed.exception, PinError) and "the budget is 1,072" in str(failed.exception)
    assert path.read_bytes() == before


def test_z2_looking_at_the_pins_changes_nothing(tmp_path: Path) -> None:
    path = session(tmp_path)
    before = path.read_bytes()
    assert "0 pinned" in done("pin", path, *WINDOW)
    assert path.read_bytes() == before


def test_z2_what_is_not_there_is_refused(tmp_path: Path) -> None:
    path = session(tmp_path)
    before = path.read_bytes()
    for wanted, words in (("nobody", "no entry 'nobody' in it"), ("m", "63 entries begin with 'm'"), ("line:900", "there are 1 to 63")):
        failed = inside("pin", path, wanted, *WINDOW)
        assert isinstance(failed.exception, InputError) and words in str(failed.exception)
    assert path.read_bytes() == before
    assert inside("pin", path, "m1", "--text", "both").exit_code == 2
    assert isinstance(inside("pin", path, "m1").exception, UnknownModelError), "the budget is a share of a window"
    failed = inside("pin", LONG, "--text", "x")
    assert isinstance(failed.exception, InputError) and "pins are kept in a fivefold session" in str(failed.exception)


def test_x7_an_entry_that_is_folded_away_can_be_pinned(tmp_path: Path) -> None:
    path = session(tmp_path, "s.jsonl", *WINDOW)
    assert all(entry.id != "m20" for entry in view_of(read_transcript(path).main.log).entries())
    assert told("pin", path, "m20", *WINDOW)["name"] == "m20"
