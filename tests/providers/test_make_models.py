"""models.json is what scripts/make_models.py makes of its inputs and of the overlay."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from fivefold.core.economics import Model
from fivefold.providers.models import Made, Table, load_table

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "models"
MADE = Made("2030-06-01", {"litellm": "1", "genai-prices": "2"}, "MIT")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_models", ROOT / "scripts" / "make_models.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_models"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(script: ModuleType) -> dict[str, dict[str, object]]:
    table = script.make(DATA / "litellm.json", DATA / "genai_data.py", MADE, DATA / "overlay.json")
    return {row["id"]: row for row in json.loads(msgspec.json.encode(table))["models"]}


def test_what_is_no_chat_model_of_a_kept_maker_is_dropped(rows: dict[str, dict[str, object]]) -> None:
    assert sorted(rows) == [
        "claude-3-opus",
        "claude-fable-9",
        "claude-opus-9",
        "gemini-flash-latest",
        "gpt-9",
        "gpt-9-2030-05-05",
        "gpt-9-mini",
        "llama-9",
        "qwen9-max",
    ]


def test_the_rows_of_one_model_are_joined_and_its_region_is_a_factor(rows: dict[str, dict[str, object]]) -> None:
    assert rows["claude-opus-9"] == {
        "id": "claude-opus-9",
        "provider": "anthropic",
        "window": 500_000,
        "max_output": 64_000,
        "prices": [[4.0, 20.0, 0.4, 5.0, 8.0], []],
        "cache": {"min_tokens": 256, "client_marks": True},
        "generation": "claude",
        "thinking": "free",
        "compaction": ["threshold", "on_demand"],
        "regional_factor": 1.25,
        "retires": "2031-01-02",
    }


def test_the_price_of_the_day_is_taken_from_dated_ones_and_none_of_a_time_of_day(rows: dict[str, dict[str, object]]) -> None:
    assert rows["claude-3-opus"]["prices"] == [[12.0, 60.0, 1.2, 15.0, 24.0], []]
    assert rows["claude-3-opus"]["max_output"] == 4096


def test_a_dated_version_is_a_row_only_where_it_differs(rows: dict[str, dict[str, object]]) -> None:
    assert rows["gpt-9-2030-05-05"]["prices"] == [[3.0, 8.0, 3.0, 3.0, 3.0], []]
    assert "claude-opus-9-20300101" not in rows


def test_openai_windows_are_whole_and_tiers_fill_in_what_is_not_listed(rows: dict[str, dict[str, object]]) -> None:
    assert (rows["gpt-9"]["window"], rows["gpt-9"]["input_cap"]) == (400_000, 272_000)
    assert (rows["gpt-9-mini"]["window"], rows["gpt-9-mini"]["input_cap"]) == (400_000, 272_000)
    assert rows["gpt-9"]["prices"] == [[1.0, 8.0, 0.1, 1.0, 1.0], [[200_000, [2.0, 12.0, 0.2, 2.0, 2.0]]]]
    assert rows["gpt-9-mini"]["prices"] == [[0.5, 4.0, 0.05, 0.5, 0.5], [[300_000, [1.0, 4.0, 0.1, 1.0, 1.0]]]]


def test_price_steps_given_as_ranges_are_tiers(rows: dict[str, dict[str, object]]) -> None:
    assert rows["qwen9-max"]["prices"] == [[1.0, 2.0, 1.0, 1.0, 1.0], [[32_000, [3.0, 5.0, 3.0, 3.0, 3.0]]]]


def test_an_output_that_no_table_tells_is_marked_and_the_overlay_takes_the_mark_away(rows: dict[str, dict[str, object]]) -> None:
    assert "assumed" not in rows["llama-9"]
    assert rows["llama-9"]["max_output"] == 9_000


def test_the_overlay_adds_rows_and_a_rule_that_touches_nothing_is_refused(script: ModuleType, rows: dict[str, dict[str, object]]) -> None:
    assert rows["claude-fable-9"]["thinking"] == "bound"
    with pytest.raises(SystemExit, match="touches nothing: nobody"):
        script.overlaid({}, [{"match": "nobody", "set": {}}])


def test_makers_own_prices_that_differ_are_printed(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    source = script.Source("gpt-9", "gpt-9", 0, "litellm", 1, 1, script.priced({0: {"input": 1.0, "output": 2.0}}), {}, None)
    other = source._replace(table="genai", prices=script.priced({0: {"input": 3.0, "output": 4.0}}))
    script.report_differences([source, other])
    assert capsys.readouterr().err == "gpt-9: litellm {0: [1.0, 2.0, 1.0]} genai-prices {0: [3.0, 4.0, 3.0]}\n"


def test_every_rule_of_the_overlay_says_where_it_is_from(script: ModuleType) -> None:
    for rule in json.loads(script.OVERLAY.read_text())["rules"]:
        assert len(rule["source"]) > 20, rule["match"]


def test_the_bundled_table_holds_the_overlay_as_it_is_now(script: ModuleType) -> None:
    table = load_table()
    rows = {row["id"]: row for row in json.loads(msgspec.json.encode(table))["models"]}
    again = script.overlaid(rows, json.loads(script.OVERLAY.read_text())["rules"])
    models = tuple(msgspec.convert(again[id], Model) for id in sorted(again))
    assert msgspec.json.encode(Table(table.made, models)) == msgspec.json.encode(table)
