"""Model data by name (V3): the bundled table, the spellings of names, the user's own data, and the errors."""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.economics import Model, Price
from fivefold.errors import InputError, UnknownModelError
from fivefold.providers.models import Override, load_models, load_table, lookup, read_overrides

MODELS = tuple(load_models().values())


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("claude-opus-4-6", "claude-opus-4-6"),
        ("claude-opus-4-6[1m]", "claude-opus-4-6"),
        ("Claude-Opus-4-6", "claude-opus-4-6"),
        (" claude-opus-4-6\n", "claude-opus-4-6"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("vertex_ai/claude-opus-4-6@default", "claude-opus-4-6"),
        ("anthropic/claude-opus-4-5", "claude-opus-4-5"),
        ("openrouter/anthropic/claude-opus-4.8", "claude-opus-4-8"),
        ("openrouter/anthropic/claude-3.7-sonnet:thinking", "claude-3-7-sonnet"),
        ("bedrock/us-east-1/anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("global.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-sonnet-4-6", "claude-sonnet-4-6"),
        ("claude-opus-4.8", "claude-opus-4-8"),
        ("claude-4-sonnet", "claude-sonnet-4"),
        ("claude-4.5-haiku", "claude-haiku-4-5"),
        ("claude-sonnet-4-0", "claude-sonnet-4"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("claude-3-opus-20240229", "claude-3-opus"),
        ("litellm_proxy/claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("gpt-4", "gpt-4"),
        ("openai/gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("azure/gpt-5.1-codex", "gpt-5.1-codex"),
        ("gpt-5.6-terra", "gpt-5.6-terra"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("google/gemini-3-pro-preview", "gemini-3-pro-preview"),
        ("gemini-flash-latest", "gemini-flash-latest"),
        ("litellm_proxy/deepseek-chat", "deepseek-chat"),
        ("moonshotai/kimi-k2.5", "kimi-k2.5"),
        ("hy3", "hy3"),
        ("MiniMax-M2", "minimax-m2"),
        ("meta-llama/llama-4-maverick", "llama-4-maverick"),
        ("nvidia/nemotron-3-super-120b-a12b-20230311:free", "nemotron-3-super-120b-a12b"),
    ],
)
def test_v3_a_model_is_found_under_its_usual_spellings(name: str, id: str) -> None:
    assert lookup(name).id == id


def test_v3_what_a_name_says_of_its_host_is_kept() -> None:
    here, bedrock, vertex = lookup("claude-opus-4-6"), lookup("us.anthropic.claude-opus-4-6-v1"), lookup("claude-opus-4-6@default")
    assert (here.provider, here.body_limit) == ("anthropic", 32_000_000)
    assert (bedrock.provider, bedrock.body_limit) == ("bedrock", 20_000_000)
    assert (vertex.provider, vertex.body_limit) == ("vertex", 30_000_000)
    assert here.media and bedrock.media and (here.media.max_image_bytes, bedrock.media.max_image_bytes) == (10_000_000, 5_000_000)


def test_v3_a_regional_endpoint_costs_more_and_a_global_one_does_not() -> None:
    regional, world = lookup("eu.anthropic.claude-opus-4-6-v1").prices, lookup("global.anthropic.claude-opus-4-6-v1").prices
    assert regional and world
    assert regional.base == Price(5.5, 27.5, 0.55, 6.875, 11.0)
    assert world.base == Price(5.0, 25.0, 0.5, 6.25, 10.0)


def test_w10_the_long_window_of_sonnet_4_5_brings_its_price_cliff() -> None:
    plain, long = lookup("claude-sonnet-4-5"), lookup("claude-sonnet-4-5[1m]")
    assert (plain.window, long.window) == (200_000, 1_000_000)
    assert long.prices and long.prices.cliff == 200_000
    assert long.prices.price_for(200_001).input == 6.0


def test_v3_a_free_route_costs_nothing() -> None:
    prices = lookup("nvidia/nemotron-3-super-120b-a12b:free").prices
    assert prices and prices.base == Price(0.0, 0.0, 0.0, 0.0, 0.0)


WAYS_OUT = (
    'Name it in full, or give its context window with --window N (tokens), or with --models FILE that has a table ["{}"] with window = N'
)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "claude-opus-4-66",
            "no data for the model 'claude-opus-4-66' (close: claude-opus-4-6, claude-opus-4-8, claude-opus-4-7). "
            + WAYS_OUT.format("claude-opus-4-66"),
        ),
        (
            "sonnet",
            "no data for the model 'sonnet' (a short name whose model changes with time; "
            "claude-sonnet-5-5, claude-sonnet-5, claude-sonnet-4-6). " + WAYS_OUT.format("sonnet"),
        ),
        ("my-own-thing", "no data for the model 'my-own-thing'. " + WAYS_OUT.format("my-own-thing")),
        (
            "<synthetic>",
            "'<synthetic>' stands where no model spoke: name one with --model NAME, or give its context window with --window N (tokens)",
        ),
        ("", "no model is named: name one with --model NAME, or give its context window with --window N (tokens)"),
    ],
)
def test_v3_an_unknown_model_is_an_error_that_says_the_way_out(name: str, message: str) -> None:
    with pytest.raises(UnknownModelError) as caught:
        lookup(name)
    assert str(caught.value) == message


LIKE_ONES = ["claude-opus-4-6x", "gpt-4o-superb", "claude", "gpt", "gemini-pro", "default", "4-6", "claude-opus", "/", "@", "[1m]", ":free"]


@pytest.mark.parametrize("name", LIKE_ONES)
def test_v3_a_name_is_never_guessed_from_a_like_one(name: str) -> None:
    with pytest.raises(UnknownModelError):
        lookup(name)


def test_v3_a_given_window_makes_a_model_of_unknown_prices() -> None:
    model = lookup("my-own-thing", window=32_768)
    assert model == Model("my-own-thing", "unknown", 32_768, 8_192, assumed=("max_output",))
    assert lookup("my-own-thing", window=1_000_000).max_output == 32_000
    assert lookup("my-own-thing", window=32_768, max_output=4_096).assumed == ()
    assert lookup("<synthetic>", window=8_192).prices is None


@pytest.mark.parametrize("window", [4_000, 8_192, 99_999, 100_000, 2_000_000])
def test_w1_an_assumed_output_lowers_no_reserve(window: int) -> None:
    reserve = 20_000 * min(1.0, window / 100_000)
    assert lookup("my-own-thing", window=window).max_output >= reserve


def test_v3_a_given_window_and_output_win_over_the_table() -> None:
    model = lookup("gpt-5.4-mini", window=100_000, max_output=5_000)
    assert (model.window, model.input_cap, model.max_output, model.prompt_limit) == (100_000, 100_000, 5_000, 100_000)
    assert lookup("gpt-5.4-mini", window=2_000_000).prompt_limit == 2_000_000
    assert lookup("gpt-4", window=2_000).max_output == 2_000


@pytest.mark.parametrize("value", [0, -1, True])
def test_w1_a_window_or_output_that_is_not_a_positive_whole_number_is_refused(value: int) -> None:
    with pytest.raises(InputError, match=f"window must be a positive whole number of tokens, not {value}"):
        lookup("gpt-4", window=value)
    with pytest.raises(InputError, match=f"max_output must be a positive whole number of tokens, not {value}"):
        lookup("gpt-4", max_output=value)


# ---- the user's own file


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


TOML = """
["My-Model"]
window = 32768
max_output = 4096
price = [1, 2, 0.1, 1, 1]
tiers = [[16000, [2, 4, 0.2, 2, 2]]]
cache = { min_tokens = 64 }

["claude-opus-4-6"]
window = 200000

["gateway/big"]
like = "claude-opus-5-5"
max_output = 10000
"""


def test_v3_a_users_file_adds_models_and_patches_known_ones(tmp_path: Path) -> None:
    overrides = read_overrides(write(tmp_path / "models.toml", TOML))
    mine = lookup("my-model", overrides=overrides)
    assert (mine.id, mine.window, mine.max_output, mine.assumed) == ("my-model", 32_768, 4_096, ())
    assert mine.prices and mine.prices.cliff == 16_000
    assert mine.cache and mine.cache.min_tokens == 64
    patched = lookup("us.anthropic.claude-opus-4-6-v1", overrides=overrides)
    assert (patched.window, patched.provider, patched.generation) == (200_000, "bedrock", "claude")
    assert patched.prices and patched.prices.base.input == 5.5
    like = lookup("gateway/big", overrides=overrides)
    assert (like.id, like.window, like.max_output, like.thinking) == ("gateway/big", 1_000_000, 10_000, "bound_by_account")
    assert lookup("gpt-4", overrides=overrides) == lookup("gpt-4")


def test_v3_the_argument_wins_over_the_users_file(tmp_path: Path) -> None:
    overrides = read_overrides(write(tmp_path / "models.toml", TOML))
    assert lookup("my-model", overrides=overrides, window=9_000).window == 9_000


def test_v3_json_says_the_same_as_toml(tmp_path: Path) -> None:
    text = '{"x": {"window": 5, "tiers": [[1, [2, 2, 2, 2, 2]]], "price": [1, 1, 1, 1, 1]}}'
    toml = "[x]\nwindow = 5\ntiers = [[1, [2, 2, 2, 2, 2]]]\nprice = [1, 1, 1, 1, 1]\n"
    assert read_overrides(write(tmp_path / "a.json", text)) == read_overrides(write(tmp_path / "a.toml", toml))


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("m.toml", '["x"]\nwindow = "big"\n', "['x'] window: expected `int | null`, got `str`"),
        ("m.toml", '["x"]\nwindw = 5\n', "['x'] object contains unknown field `windw`"),
        ("m.toml", '["x"]\nwindow = 0\n', "['x'] window must be a positive whole number, not 0"),
        ("m.toml", '["x"]\nwindow = 5\nprice = [1, 2]\n', "['x'] price: expected `array` of at least length 5, got 2"),
        ("m.toml", '["x"]\nwindow = 5\nprice = [1, -2, 1, 1, 1]\n', "['x'] price must be five numbers that are not negative"),
        ("m.toml", '["x"]\nwindow = 5\nprice = [1, nan, 1, 1, 1]\n', "['x'] price must be five numbers that are not negative"),
        ("m.toml", '["gpt-4"]\ntiers = [[9, [1, 1, 1, 1, 1]], [5, [1, 1, 1, 1, 1]]]\n', "['gpt-4'] tiers must rise from one above_tokens"),
        ("m.toml", '["x"]\ncache = { ttl_seconds = [0, 5] }\n', "['x'] cache.ttl_seconds must be a positive whole number, not 0"),
        ("m.toml", '["x"]\nwindow = 5\ncache = { min_tokens = -1 }\n', "['x'] cache.min_tokens must not be negative, but is -1"),
        ("m.toml", '["x"]\ngeneration = "new"\n', "['x'] generation: invalid enum value 'new'"),
        ("m.toml", '["x"]\nwindow = 5\ntiers = [[1, [1, 1, 1, 1, 1]]]\n', "['x'] tiers need a price"),
        ("m.toml", "x = 5\n", "['x'] expected `object`, got `int`"),
        ("m.toml", "not toml", "is neither TOML nor, with the ending .json, JSON: "),
        ("m.json", "{", "is neither TOML nor, with the ending .json, JSON: "),
        ("m.json", "[]", 'must hold one table a model, such as ["my-model"] window = 32768'),
    ],
)
def test_v3_a_wrong_users_file_is_refused_by_file_model_and_key(tmp_path: Path, file: str, text: str, message: str) -> None:
    path = write(tmp_path / file, text)
    with pytest.raises(InputError) as caught:
        read_overrides(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_v3_a_users_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_overrides(tmp_path / "none.toml")


@given(st.binary(max_size=80) | st.sampled_from([b"[" * 100_000, b'{"x":' * 100_000, b"x = " + b"[" * 100_000, TOML.encode()]))
def test_v3_a_users_file_of_any_bytes_is_read_or_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("toml", "json"):
            path = Path(folder) / f"models.{ending}"
            path.write_bytes(data)
            try:
                assert all(isinstance(row, Override) for row in read_overrides(path).values())
            except InputError as error:
                assert error.path == str(path)


PIECES = ["claude-", "opus", "-4-6", "us.", "anthropic.", "-v1:0", "@20250929", "[1m]", "/", ":free", "gpt-4o", "-2024-08-06", "-latest"]


@given(st.text(max_size=30) | st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_v3_any_name_is_a_known_model_or_an_unknown_one(name: str) -> None:
    try:
        found = lookup(name).id
    except UnknownModelError:
        assert lookup(name, window=5_000).window == 5_000
    else:
        assert found in load_models()


def test_v3_like_needs_a_known_model_and_a_row_without_window_is_still_unknown() -> None:
    with pytest.raises(InputError, match="like: no data for the model 'nobody'"):
        lookup("x", overrides={"x": Override(like="nobody")})
    with pytest.raises(UnknownModelError):
        lookup("x", overrides={"x": Override(max_output=5)})


# ---- the facts, one by one (the reference table of Anthropic's models, and of OpenAI's windows)

CLAUDE = {  # id: window, output, input, output, read, 5m, 1h, cache minimum, thinking, generation
    "claude-fable-5-2": (1_000_000, 128_000, 8, 40, 0.20, 10, 16, 512, "bound", "claude-new"),
    "claude-mythos-5-2": (1_000_000, 128_000, 8, 40, 0.20, 10, 16, 512, "bound", "claude-new"),
    "claude-fable-5-1": (1_000_000, 128_000, 10, 50, 0.25, 12.5, 20, 512, "bound_by_account", "claude-new"),
    "claude-mythos-5-1": (1_000_000, 128_000, 10, 50, 0.25, 12.5, 20, 512, "bound_by_account", "claude-new"),
    "claude-fable-5": (1_000_000, 128_000, 10, 50, 1.00, 12.5, 20, 512, "free", "claude-new"),
    "claude-mythos-5": (1_000_000, 128_000, 10, 50, 1.00, 12.5, 20, 512, "free", "claude-new"),
    "claude-opus-5-5": (1_000_000, 128_000, 4, 20, 0.20, 5, 8, 512, "bound_by_account", "claude-new"),
    "claude-opus-5": (1_000_000, 128_000, 5, 25, 0.50, 6.25, 10, 512, "free", "claude-new"),
    "claude-opus-4-8": (1_000_000, 128_000, 5, 25, 0.50, 6.25, 10, 1024, "free", "claude-new"),
    "claude-opus-4-7": (1_000_000, 128_000, 5, 25, 0.50, 6.25, 10, 2048, "free", "claude-new"),
    "claude-opus-4-6": (1_000_000, 128_000, 5, 25, 0.50, 6.25, 10, 4096, "free", "claude"),
    "claude-opus-4-5": (200_000, 64_000, 5, 25, 0.50, 6.25, 10, 4096, "free", "claude"),
    "claude-sonnet-5-5": (1_000_000, 128_000, 2, 10, 0.10, 2.5, 4, 512, "bound_by_account", "claude-new"),
    "claude-sonnet-5": (1_000_000, 128_000, 2, 10, 0.20, 2.5, 4, 1024, "free", "claude-new"),
    "claude-sonnet-4-6": (1_000_000, 128_000, 3, 15, 0.30, 3.75, 6, 1024, "free", "claude"),
    "claude-sonnet-4-5": (200_000, 64_000, 3, 15, 0.30, 3.75, 6, 1024, "free", "claude"),
    "claude-haiku-5-5": (1_000_000, 128_000, 0.10, 0.50, 0.01, 0.125, 0.20, 512, "free", "claude-new"),
    "claude-haiku-4-5": (200_000, 64_000, 1, 5, 0.10, 1.25, 2, 4096, "free", "claude"),
}


@pytest.mark.parametrize("id", CLAUDE)
def test_v3_the_facts_of_each_claude_model(id: str) -> None:
    model = lookup(id)
    assert model.prices and model.cache
    price = msgspec.structs.astuple(model.prices.base)
    assert (model.window, model.max_output, *price, model.cache.min_tokens, model.thinking, model.generation) == CLAUDE[id]
    assert model.cache.client_marks and model.cache.max_breakpoints == 4 and model.cache.look_back == 20
    assert model.cache.ttl_seconds == (300, 3600)
    assert model.edits == ("clear_thinking", "clear_tool_uses")


def test_w10_haiku_5_5_costs_five_times_as_much_above_100k_prompt_tokens() -> None:
    prices = lookup("claude-haiku-5-5").prices
    assert prices and prices.cliff == 100_000
    assert prices.price_for(100_001) == Price(0.5, 2.5, 0.05, 0.625, 1.0)


def test_w10_no_other_claude_model_has_a_cliff_inside_its_window() -> None:
    cliffs = {m.id for m in MODELS if m.provider == "anthropic" and m.prices and (m.prices.cliff or m.window) < m.window}
    assert cliffs == {"claude-haiku-5-5"}


def test_e7_server_compaction_is_on_the_models_that_have_it() -> None:
    with_it = {m.id for m in MODELS if "on_demand" in m.compaction}
    assert with_it == {id for id in CLAUDE if not id.endswith("-4-5")} | {"claude-mythos-preview"}
    assert lookup("gpt-5.6-sol").compaction == ("responses",)
    assert lookup("gpt-4o").compaction == ()


def test_i3_prefill_is_refused_from_claude_4_6_on() -> None:
    assert {id for id in CLAUDE if lookup(id).prefill} == {"claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5"}


def test_t6_image_caps_follow_the_generation_of_the_vision_encoder() -> None:
    assert (lookup("claude-opus-4-6").image_cap, lookup("claude-opus-4-6").image_long_edge) == (1568, 1568)
    assert (lookup("claude-opus-4-7").image_cap, lookup("claude-opus-4-7").image_long_edge) == (4784, 2576)
    big, small = lookup("claude-opus-5").media, lookup("claude-haiku-4-5").media
    assert big and small and (big.max_items, small.max_items) == (600, 100)


@pytest.mark.parametrize("id", ["gpt-6-sol", "gpt-5.6-sol", "gpt-5.5", "gpt-5.4"])
def test_v3_the_million_token_window_of_openai_holds_prompt_and_output(id: str) -> None:
    model = lookup(id)
    assert (model.window, model.max_output, model.prompt_limit) == (1_050_000, 128_000, 922_000)
    assert model.prices and model.prices.cliff == 272_000
    assert model.prices.price_for(272_001).input == 2 * model.prices.base.input


def test_v3_older_openai_windows_and_retirements() -> None:
    assert (lookup("gpt-5.4-mini").window, lookup("gpt-5.4-mini").prompt_limit) == (400_000, 272_000)
    assert (lookup("gpt-4o").window, lookup("gpt-4o").input_cap, lookup("gpt-4o").retires) == (128_000, None, "2027-01-14")
    assert lookup("gpt-5").retires == "2026-12-11"
    assert lookup("claude-opus-4-5").retires == "2027-01-22"
    assert lookup("claude-sonnet-4-5").retires == "2026-11-30"
    assert [lookup(name).generation for name in ("gpt-4", "gpt-3.5-turbo", "gpt-4o", "o3", "gpt-6-sol")] == ["cl100k"] * 2 + ["o200k"] * 3


# ---- the whole table

WRITES_UNDER_INPUT = {"minimax-m2.1-highspeed", "minimax-m2.5-highspeed", "minimax-m2.7-highspeed"}
"""The public data price cache writes of these below input."""


def test_the_table_says_where_it_is_from() -> None:
    made = load_table().made
    assert made.sources == {"litellm": "1.110.2", "genai-prices": "0.2.3"}
    assert made.date == "2026-11-30"
    assert made.licence.startswith("MIT")


def test_every_model_has_a_unique_id_that_finds_it() -> None:
    assert len(MODELS) == len(load_table().models) > 400
    for model in MODELS:
        assert lookup(model.id) == model
        assert model.id == model.id.lower() and "/" not in model.id


def test_sizes_are_positive_and_fit_into_each_other() -> None:
    for model in MODELS:
        assert 0 < model.max_output <= model.window, model.id
        assert 0 < model.prompt_limit <= model.window, model.id
        if model.input_cap is not None:
            assert model.input_cap + model.max_output == model.window, model.id


def test_prices_are_sane_in_every_tier() -> None:
    under = set()
    for model in MODELS:
        if model.prices is None:
            continue
        above = [tier.above_tokens for tier in model.prices.tiers]
        assert above == sorted(set(above)) and all(mark > 0 for mark in above), model.id
        for price in (model.prices.base, *(tier.price for tier in model.prices.tiers)):
            assert 0 < price.input <= price.output, model.id
            assert 0 <= price.cache_read <= price.input, model.id
            assert price.cache_write_5m <= price.cache_write_1h <= 2.5 * price.input + 1e-9, model.id
            if price.cache_write_5m < price.input:
                under.add(model.id)
    assert under == WRITES_UNDER_INPUT


def test_a_cache_is_there_exactly_where_reads_are_cheaper() -> None:
    for model in MODELS:
        cheaper = model.prices is not None and model.prices.base.cache_read < model.prices.base.input
        assert (model.cache is not None) == cheaper, model.id


def test_only_claude_models_have_marks_edits_bindings_and_known_media_limits() -> None:
    for model in MODELS:
        claude = model.provider == "anthropic"
        assert (model.media is not None and model.body_limit is not None) == claude, model.id
        assert (model.cache is not None and model.cache.client_marks) == claude, model.id
        assert claude or (not model.edits and model.thinking in ("none", "free")), model.id


def test_the_bundled_file_is_small() -> None:
    assert len(msgspec.json.encode(load_table())) < 250_000
