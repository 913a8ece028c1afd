"""The page of a compaction in a real browser: complete, safe, without a network, narrow and wide, light and dark (X6, B5, H1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fivefold.report.compaction_page import MOST_ROUNDS, numbers, runs
from fivefold.report.went import RoundRow
from tests.cli.made import LONG, done, messages, told

if TYPE_CHECKING:
    from playwright.sync_api import Page

ATTACK = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
SUMMARY = ("--window", "128000")


def page_of(folder: Path, *arguments: str | Path, code: int = 0) -> str:
    out = folder / "page.html"
    done("compact", *arguments, "--html", out, code=code)
    return out.as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (800, "dark"), (380, "light")])
def test_x6_the_page_shows_all_parts_and_does_not_run_over(page: Page, tmp_path: Path, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(page_of(tmp_path, LONG, *SUMMARY, "-o", tmp_path / "out.jsonl"))
    titles = page.locator("h2").all_inner_texts()
    assert titles == ["By kind", "Levels", "Receipt", "What went, what stays", "The summary", "Violations", "Result"]
    text = page.locator("body").inner_text()
    for words in ("no LLM call", "159,501 →", "in a window of 128,000", "at the blocking limit", "Not applied: not enough by itself"):
        assert words in text
    assert f"fivefold undo {tmp_path / 'out.jsonl'}" in text
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "wide parts scroll inside themselves"
    ink, paper = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    assert (paper == "rgb(18, 22, 28)") == (scheme == "dark") and ink != paper


@pytest.mark.parametrize("window", ["128000", "200000"])
def test_x6_the_bars_are_as_long_as_the_views_are_large(page: Page, tmp_path: Path, window: str) -> None:
    """In a window that the view before is larger than, and in one that it is smaller than."""
    report = told("compact", LONG, "--window", window)
    page.goto(page_of(tmp_path, LONG, "--window", window))
    measured = page.evaluate(
        """() => [...document.querySelectorAll('.stack')].map(bar => {
            const pieces = [...bar.querySelectorAll('b')].map(piece => piece.getBoundingClientRect());
            return [pieces.at(-1).right - pieces[0].left, bar.clientWidth];
        })"""
    )
    top = max(report["window"]["context"], report["before"]["tokens"])
    for (length, whole), side in zip(measured, (report["before"], report["after"]), strict=True):
        assert length / whole == pytest.approx(side["tokens"] / top, abs=0.01)
    place, left, wide = page.evaluate(
        """() => { const mark = document.querySelectorAll('.marks > i')[1].getBoundingClientRect();
            const bar = document.querySelector('.stack').getBoundingClientRect(); return [mark.left, bar.left, bar.width]; }"""
    )
    assert (place - left) / wide == pytest.approx(report["window"]["auto"] / top, abs=0.01), (
        "the auto-compact threshold, on the bars' scale"
    )


def test_x6_what_went_can_be_unfolded_round_by_round(page: Page, tmp_path: Path) -> None:
    report = told("compact", LONG, *SUMMARY)
    page.goto(page_of(tmp_path, LONG, *SUMMARY))
    folded = [row for row in report["rounds"] if row["fate"] == "folded"]
    group = page.locator("details", has_text=f"{len(folded)} rounds folded away")
    assert not group.locator("table").is_visible()
    group.locator("summary").click()
    assert group.locator("table").is_visible()
    assert group.locator("tr").count() == len(folded) + 1
    assert "Can you review the changes in this branch" in group.inner_text()


def test_a8_the_page_of_a_failure_says_why(page: Page, tmp_path: Path) -> None:
    page.goto(page_of(tmp_path, LONG, "--window", "40000", code=1))
    text = page.locator("body").inner_text()
    assert "Not done:" in text and "system prompt and tools" in text
    assert page.locator("h2").all_inner_texts() == ["By kind", "Levels", "Largest parts", "Violations"]
    assert page.locator(".stack").count() == 1


def test_h1_recorded_text_stays_text(page: Page, tmp_path: Path) -> None:
    made = messages()
    made[0]["content"] = ATTACK
    made[1]["content"][1] |= {"name": ATTACK, "input": {"file_path": ATTACK}}
    made[2]["content"][0]["content"] = ATTACK * 40
    session = tmp_path / f"{'x' * 5}<b>.json"
    session.write_text(json.dumps(made))
    page.goto(page_of(tmp_path, session, "--window", "16000"))
    assert page.title() != "owned" and page.locator("script, img").count() == 0
    page.locator("details").first.locator("summary").click()
    assert ATTACK in page.locator("body").inner_text()


def row(number: int, fate: str = "folded") -> RoundRow:
    return RoundRow(number, f"e{number}", None, 1, 100, 0, "kept" if fate == "kept" else "folded", "text", "")


def test_h4_ten_thousand_rounds_make_no_endless_page() -> None:
    from fivefold.report.compaction_page import groups

    found = groups([row(i) for i in range(1, 10_001)])
    assert [(one.how_many, len(one.rows), one.left_out) for one in found] == [(10_000, MOST_ROUNDS, 10_000 - MOST_ROUNDS)]
    assert [one.rounds for one in runs([row(1), row(2), row(3, "kept"), row(4)])] == ["1 to 2", "3", "4"]


@pytest.mark.parametrize(
    ("rounds", "words"),
    [([1], "1"), ([1, 2, 3], "1 to 3"), ([1, 3, 4], "1, 3 to 4"), (list(range(1, 40, 2)), "1, 3, 5, 7, 9, …, 39")],
)
def test_numbers_are_written_as_ranges(rounds: list[int], words: str) -> None:
    """X6: which rounds went can be read at a glance."""
    assert numbers(rounds) == words
