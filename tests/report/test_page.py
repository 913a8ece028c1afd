"""The page in a real browser: complete, safe, without a network, at three widths, light and dark (B5, H1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fivefold.formats.registry import read_transcript
from fivefold.report.build import Options, inspect
from fivefold.report.html import write_page

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLE = Path(__file__).parents[2] / "examples" / "session.jsonl"
ATTACK = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def page_of(path: Path, out: Path) -> str:
    write_page(inspect(read_transcript(path), Options(window=200_000)).report, out)
    return out.as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (800, "dark"), (380, "light")])
def test_b5_the_page_shows_all_parts_and_does_not_run_over(page: Page, tmp_path: Path, width: int, scheme: str) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.goto(page_of(EXAMPLE, tmp_path / "page.html"))
    assert page.locator("h1").inner_text() == str(EXAMPLE)
    titles = page.locator("h2").all_inner_texts()
    assert titles == ["Size by round", "What fills it, by kind", "By tool", "By file", "Compactions", "Largest entries", "Violations"]
    assert "118,925 of 200,000 tokens (the provider's count)" in page.locator("body").inner_text()
    assert page.locator("svg g").count() == 2, "a mark for each compaction"
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "wide parts scroll inside themselves"
    ink, paper = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    assert (paper == "rgb(18, 22, 28)") == (scheme == "dark") and ink != paper


def test_h1_recorded_text_stays_text(page: Page, tmp_path: Path) -> None:
    session = tmp_path / f"{'x' * 5}<b>.json"
    session.write_text(
        json.dumps(
            [
                {"role": "user", "content": ATTACK},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": ATTACK, "input": {"file_path": ATTACK}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": ATTACK}]},
            ]
        )
    )
    page.goto(page_of(session, tmp_path / "page.html"))
    assert page.title() != "owned" and page.locator("script, img").count() == 0
    assert ATTACK in page.locator("body").inner_text()
