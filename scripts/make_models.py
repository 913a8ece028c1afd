"""Makes src/fivefold/providers/models.json: one row a model, from two public tables and a hand-kept overlay.

Inputs (both MIT licensed; take them out of their wheels):
  LiteLLM       model_prices_and_context_window_backup.json   windows, outputs, prices, cache minimum, flags
  genai-prices  genai_prices/data.py                          prices and windows of models that LiteLLM has dropped or not yet has
  overlay       scripts/models_overlay.json                   what both lack or have wrong; every rule says where it is from

    PYTHONPATH=src python scripts/make_models.py --date YYYY-MM-DD --out src/fivefold/providers/models.json \
        --litellm FILE --litellm-version V --genai FILE --genai-version V

data.py is read as a syntax tree and never run. Where both tables have a maker's own price and disagree, the script
prints both: the overlay has to say which is right, else LiteLLM's stands.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fivefold.core.economics import Model
from fivefold.providers.models import MAX_ASSUMED_OUTPUT, Made, Table
from fivefold.providers.names import parse_name

Row = dict[str, Any]
Steps = dict[int, dict[str, float]]
"""Prices by tier: {above_tokens: {part: USD per million tokens}}; 0 is the base."""
PARTS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")
LICENCES = "MIT: LiteLLM, Copyright (c) 2023 Berri AI; genai-prices, Copyright (c) Pydantic Services Inc. 2025 to present"
OVERLAY = Path(__file__).with_name("models_overlay.json")

MAKERS_OWN = {
    **{name: name for name in ("anthropic", "openai", "google", "xai", "mistral", "deepseek", "moonshot", "zai", "minimax", "meta")},
    **{"cohere": "cohere", "tencent": "tencent", "gemini": "google", "dashscope": "qwen", "cohere_chat": "cohere", "amazon_nova": "amazon"},
    **{"xiaomi_mimo": "xiaomi", "codestral": "mistral", "x-ai": "xai", "moonshotai": "moonshot"},
}
"""The tables' names of the makers' own services, and the maker."""
HOST_RANKS: dict[str, int] = {
    **dict.fromkeys(("vertex_ai-language-models", "vertex_ai", "azure", "bedrock_converse"), 1),
    **dict.fromkeys(("vertex_ai-anthropic_models", "bedrock", "aws", *MAKERS_OWN, "groq"), 2),
    **dict.fromkeys(("vercel_ai_gateway", "novita", "deepinfra", "nebius", "together_ai", "openrouter"), 3),
}
"""Whose row is believed after the maker's own (rank 0): the large clouds', then other hosts'."""
MAKERS = (
    ("anthropic", r"claude-(?:3|opus-|sonnet-|haiku-|fable-|mythos-).*(?:\d|preview|opus|sonnet|haiku)"),
    ("openai", r"(?:gpt|chatgpt|codex|o\d).*"),
    ("google", r"(?:gemini|gemma).*"),
    ("xai", r"grok.*"),
    ("mistral", r"(?:mistral|ministral|devstral|codestral|magistral|pixtral|mixtral|open-mi|labs-).*"),
    ("deepseek", r"deepseek.*"),
    ("moonshot", r"(?:kimi|moonshot).*"),
    ("qwen", r"(?:qwen|qwq).*"),
    ("zai", r"glm.*"),
    ("minimax", r"minimax.*"),
    ("meta", r"(?:llama|muse).*"),
    ("amazon", r"nova.*"),
    ("tencent", r"(?:hy\d|hunyuan).*"),
    ("nvidia", r"(?:llama-3\.\d-)?nemotron.*"),
    ("cohere", r"command.*"),
    ("xiaomi", r"mimo.*"),
)
"""Names that are kept, and who makes the model."""
NOT_CHAT = re.compile(
    r"embed|tts|audio|image|realtime|live|transcri|whisper|moderation|rerank|search-|guard|ocr|robotics|omni|computer-use|container|voxtral"
    r"|deep-research|fim|speech|video|lyria|^ft:|instruct-awq|cyber|daybreak|rosalind|-law$|base$|prompt-guard|-vl-|-batch|customtools|^gemini-pro$|experimental|-gv2$|:"
)


class Source(NamedTuple):
    """What one table says of one name."""

    name: str
    undated: str
    rank: int
    table: str
    window: int | None
    max_output: int | None
    prices: Steps | None
    flags: Row
    region: str | None


def read_litellm(path: Path) -> Iterator[Source]:
    """The chat models of LiteLLM's table that are of use here."""
    for key, row in json.loads(path.read_text()).items():
        name = parse_name(key)
        rank = rank_of(row.get("litellm_provider", ""), name.dated)
        if rank is None or row.get("mode") not in ("chat", "responses"):
            continue
        region = key.split(".", 1)[0] if name.regional else None
        prefixed = key.startswith(("azure/eu/", "azure/us/", "bedrock/", "azure/global"))
        if wanted(name.dated) and not prefixed:
            window, output = whole(row.get("max_input_tokens")), whole(row.get("max_output_tokens"))
            yield Source(name.dated, name.spellings[-1], rank, "litellm", window, output, litellm_prices(row), row, region)


def rank_of(service: str, name: str) -> int | None:
    """How far a service is believed about a model; None where it is not used."""
    return 0 if MAKERS_OWN.get(service) == maker(name) is not None else HOST_RANKS.get(service)


def wanted(name: str) -> bool:
    """Whether a name is that of a chat model of a maker that is kept."""
    return not NOT_CHAT.search(name) and maker(name) is not None


def maker(name: str) -> str | None:
    """Who makes the model of this name."""
    return next((who for who, pattern in MAKERS if re.fullmatch(pattern, name.removesuffix("-latest"))), None)


def whole(value: object) -> int | None:
    """A positive whole number, or None."""
    return int(value) if isinstance(value, int | float) and value > 0 else None


def litellm_prices(row: Mapping[str, Any]) -> Steps | None:
    """Prices by tier of a LiteLLM row; None where input and output are not both priced."""
    if row.get("tiered_pricing"):
        steps = {int(step["range"][0]): litellm_step(step, "") for step in row["tiered_pricing"] if "range" in step}
    else:
        marks = {int(found[1]) for key in row if (found := re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", key))}
        steps = {0: litellm_step(row, ""), **{mark * 1000: litellm_step(row, f"_above_{mark}k_tokens") for mark in sorted(marks)}}
    return priced(steps)


def litellm_step(row: Mapping[str, Any], suffix: str) -> dict[str, float]:
    """One tier of a LiteLLM row, in USD per million tokens; parts that it does not price are left out."""
    write = "cache_creation_input_token_cost"
    keys = {
        "input": ["input_cost_per_token"],
        "output": ["output_cost_per_token"],
        "cache_read": ["cache_read_input_token_cost"],
        "cache_write": [write],
        "cache_write_1h": [f"{write}_above_1hr", f"{write}_above_12hr"],
    }
    step = {}
    for part, names in keys.items():
        value = next((row[name + suffix] for name in names if row.get(name + suffix) is not None), None)
        if value is not None and (value or not part.startswith("cache_write")):
            step[part] = round(float(value) * 1_000_000, 6)
    return step


def read_genai(path: Path, date: str) -> Iterator[Source]:
    """The models of genai-prices' table that are of use here, with the prices that hold on a day."""
    tree = ast.parse(path.read_text())
    for call in providers(tree):
        provider = value_of(call)
        for row in provider.get("models", ()):
            name = parse_name(row["id"])
            rank = rank_of(provider["id"], name.dated)
            moving = row["id"].startswith("~")
            if rank is not None and wanted(name.dated) and not (moving or name.free or name.host):
                window, prices = row.get("context_window"), genai_prices(row, date)
                yield Source(name.dated, name.spellings[-1], rank, "genai", window, None, prices, {}, None)


def providers(tree: ast.Module) -> Iterable[ast.expr]:
    """The elements of the list that is assigned to ``providers``."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "providers":
            assert isinstance(node.value, ast.List)
            return node.value.elts
    raise SystemExit("no list named providers in the genai-prices data")


def value_of(node: ast.expr) -> Any:
    """An expression of constructor calls as plain data: a call with keywords is a dictionary, Decimal a float, a date its text."""
    match node:
        case ast.Constant():
            return node.value
        case ast.List() | ast.Tuple():
            return [value_of(item) for item in node.elts]
        case ast.Dict():
            return {value_of(key): value_of(item) for key, item in zip(node.keys, node.values, strict=True) if key is not None}
        case ast.Call(func=ast.Name(id="Decimal")):
            return float(value_of(node.args[0]))
        case ast.Call(func=ast.Attribute(attr="date" | "time")):
            return "-".join(f"{value_of(item):02d}" for item in node.args)
        case ast.Call():
            return {word.arg: value_of(word.value) for word in node.keywords}
    return None


def genai_prices(row: Row, date: str) -> Steps | None:
    """Prices by tier of a genai-prices row on a day; prices for a time of day are left aside."""
    prices = row.get("prices", {})
    if isinstance(prices, list):
        dated = [(item.get("constraint") or {"start_date": ""}, item["prices"]) for item in prices]
        begun = [(when["start_date"], price) for when, price in dated if when.get("start_date", "9") <= date]
        prices = max(begun, key=lambda item: item[0])[1] if begun else {}
    keys = dict(zip(PARTS, ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok"), strict=True))
    steps: Steps = {0: {}}
    for part, key in keys.items():
        value = prices.get(key)
        if isinstance(value, dict):
            steps[0][part] = value["base"]
            for tier in value["tiers"]:
                steps.setdefault(tier["start"], {})[part] = tier["price"]
        elif value is not None:
            steps[0][part] = value
    return priced(steps)


def priced(steps: Steps) -> Steps | None:
    """Tiers with every part filled in: an absent read or write costs what input costs, an absent long write what a short one does.

    A tier's write price without a base one is dropped: the tables hold storage prices there by mistake."""
    base = steps.get(0, {})
    if not base.get("input") or "output" not in base:
        return None
    full: Steps = {}
    for above, step in sorted(steps.items()):
        got = {part: step[part] for part in PARTS if part in step and (part in base or part in ("input", "output"))}
        scale = got.get("input", base["input"]) / base["input"]
        for part in PARTS:
            if part in base and part not in got:
                got[part] = round(base[part] * (1.0 if part == "output" else scale), 6)
        got.setdefault("cache_write", got["input"])
        got.setdefault("cache_write_1h", got["cache_write"])
        got.setdefault("cache_read", got["input"])
        full[above] = got
    return full


def join(sources: Iterable[Source]) -> dict[str, Row]:
    """One raw row a name from all that the tables say: undated names, and dated ones that differ from theirs."""
    groups: dict[str, list[Source]] = defaultdict(list)
    for source in sources:
        groups[source.undated].append(source)
    rows: dict[str, Row] = {}
    for undated, group in groups.items():
        newest_first = sorted((s for s in group if s.name != undated), key=lambda s: s.name, reverse=True)
        row = raw_row(undated, [s for s in group if s.name == undated] + newest_first)
        if row is None:
            continue
        if all(s.name == f"{undated}-latest" for s in group):
            row["id"] = f"{undated}-latest"
        rows[row["id"]] = row
        own = (s for s in group if s.name != undated and s.table == "litellm")
        for name in sorted({s.name for s in own if s.rank == 0 or (s.rank == 1 and row["provider"] == "openai")}):
            dated = raw_row(name, [s for s in group if s.name == name])
            if dated and name != row["id"] and gist(dated) != gist(row):
                rows[name] = dated
    return rows


def with_long_write(step: dict[str, float]) -> dict[str, float]:
    """A price of Anthropic's with the one-hour write, which costs twice the input and is missing from rows of other clouds."""
    return {**step, "cache_write_1h": max(step["cache_write_1h"], round(2 * step["input"], 6))}


def gist(row: Row) -> tuple[object, ...]:
    """What tells a dated version from the undated one: sizes, input and output price."""
    return row["window"], row["max_output"], row["prices"][0][:2] if "prices" in row else None


def raw_row(name: str, sources: list[Source]) -> Row | None:
    """A row of one name: each fact from the first source that has it, the maker's own before others'; None without a window."""
    ranked = sorted((s for s in sources if s.region is None), key=lambda s: (s.rank, s.table != "litellm"))
    window = next((s.window for s in ranked if s.window), None)
    if window is None:
        return None
    prices = best_prices(ranked)
    if prices and maker(name) == "anthropic":
        prices = {above: with_long_write(step) for above, step in prices.items()}
    output = next((s.max_output for s in ranked if s.max_output), None)
    row: Row = {"id": name, "provider": maker(name) or "", "window": window}
    row["max_output"] = min(output or MAX_ASSUMED_OUTPUT, output or window // 4, window)
    if output is None:
        row["assumed"] = ["max_output"]
    flags: Row = next((s.flags for s in ranked if s.flags), {})
    row.update(capabilities(flags, prices))
    own = next((s.flags for s in ranked if s.flags and s.rank == 0), {})
    if own.get("deprecation_date"):
        row["retires"] = own["deprecation_date"]
    row.update(regional(sources))
    return openai_cap(row)


def best_prices(ranked: list[Source]) -> Steps | None:
    """The first source's prices; of the maker's own in both tables those that know a discount for cache reads."""
    known = [(s.rank, s.prices) for s in ranked if s.prices]
    discounted = (prices for rank, prices in known if rank == 0 and prices[0]["cache_read"] < prices[0]["input"])
    return next(discounted, known[0][1] if known else None)


def capabilities(flags: Mapping[str, Any], prices: Steps | None) -> Row:
    """What LiteLLM's flags and the prices tell beside the sizes."""
    row: Row = {"thinking": "free" if flags.get("supports_reasoning") else "none"}
    if flags.get("supports_assistant_prefill"):
        row["prefill"] = True
    if flags.get("supports_anthropic_compaction"):
        row["compaction"] = ["threshold", "on_demand"]
    if prices is not None:
        lists = {above: [step[part] for part in PARTS] for above, step in sorted(prices.items())}
        row["prices"] = [lists[0], [[above, lists[above]] for above in lists if above]]
        if prices[0]["cache_read"] < prices[0]["input"]:
            least = whole(flags.get("prompt_cache_min_tokens"))
            row["cache"] = {"min_tokens": least} if least else {}
    return row


def regional(sources: Iterable[Source]) -> Row:
    """The factor between Bedrock's price in a region of the United States and its price without one."""
    prices: dict[str | None, float] = {}
    for source in sources:
        if source.prices and source.rank == 1 and source.region in (None, "us"):
            prices.setdefault(source.region, source.prices[0]["input"])
    factor = round(prices["us"] / prices[None], 3) if len(prices) == 2 else 1.0
    return {"regional_factor": factor} if factor != 1.0 else {}


def overlaid(rows: dict[str, Row], overlay: list[Row]) -> dict[str, Row]:
    """The rows with the overlay's rules over them, in the file's order; a rule with ``add`` makes rows that the tables lack."""
    for rule in overlay:
        for name in rule.get("add", ()):
            rows.setdefault(name, {"id": name, "provider": maker(name) or ""})
        touched = [row for name, row in rows.items() if re.fullmatch(rule["match"], name)]
        if not touched:
            raise SystemExit(f"an overlay rule touches nothing: {rule['match']}")
        for row in touched:
            for key, value in rule["set"].items():
                row[key] = {**row[key], **value} if key == "cache" and isinstance(row.get(key), dict) else value
            row["assumed"] = [field for field in row.get("assumed", ()) if field not in rule["set"]]
    return rows


def openai_cap(row: Row) -> Row:
    """OpenAI's window holds prompt and output together: what the tables give is, since GPT-5, either that or the largest prompt."""
    if re.match(r"gpt-[5-9]", row["id"]) and row["max_output"] >= 128_000:
        if row["window"] not in (400_000, 1_050_000):
            row["window"] += row["max_output"]
        row["input_cap"] = row["window"] - row["max_output"]
    return row


def report_differences(sources: list[Source]) -> None:
    """Prints the makers' own base prices that the two tables give differently."""
    found: dict[str, dict[str, Steps]] = defaultdict(dict)
    for source in sources:
        if source.rank == 0 and source.prices and source.region is None:
            found[source.name].setdefault(source.table, source.prices)
    for name, tables in sorted(found.items()):
        if len(tables) == 2:
            ours, theirs = ({above: [step[part] for part in PARTS[:3]] for above, step in prices.items()} for prices in tables.values())
            if ours != theirs:
                print(f"{name}: litellm {ours} genai-prices {theirs}", file=sys.stderr)


def make(litellm: Path, genai: Path, made: Made, overlay: Path = OVERLAY) -> Table:
    """The table from its inputs."""
    sources = [*read_litellm(litellm), *read_genai(genai, made.date)]
    report_differences(sources)
    rows = overlaid(join(sources), json.loads(overlay.read_text())["rules"])
    models = tuple(msgspec.convert(rows[name], Model) for name in sorted(rows) if rows[name].get("window"))
    return Table(made, models)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("litellm", "genai", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("litellm-version", "genai-version", "date"):
        parser.add_argument(f"--{name}", required=True)
    given = parser.parse_args()
    sources = {"litellm": given.litellm_version, "genai-prices": given.genai_version}
    table = make(given.litellm, given.genai, Made(given.date, sources, LICENCES))
    given.out.write_bytes(msgspec.json.encode(table) + b"\n")


if __name__ == "__main__":
    main()
