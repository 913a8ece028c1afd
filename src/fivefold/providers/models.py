"""Model data by name (V3): a bundled table, patched by what the user gives; an unknown name is an error, never a guess.

models.json is made by scripts/make_models.py from LiteLLM's and genai-prices' tables (both MIT) and a hand-kept overlay.
Where a provider has a models endpoint, what it says at run time is better still: give it as ``window`` and ``max_output``.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from ..core.economics import Binding, CacheRules, Model, Price, Prices, Tier
from ..core.generation import Generation
from ..errors import InputError, UnknownModelError
from .names import Name, parse_name

LONG_WINDOW = 1_000_000
MAX_ASSUMED_OUTPUT = 32_000
_HOST_LIMITS = {"bedrock": (20_000_000, 5_000_000), "vertex": (30_000_000, 5_000_000)}
"""Bytes of a body, bytes of an image, for Claude models on other clouds (as documented for partner platforms; may change)."""
_NO_MODEL = ("", "<synthetic>")
"""What clients write where no model spoke."""


class Made(msgspec.Struct, frozen=True):
    """Where the table is from."""

    date: str
    sources: dict[str, str]
    """Package: version."""
    licence: str


class Table(msgspec.Struct, frozen=True):
    """The bundled table as it is stored."""

    made: Made
    models: tuple[Model, ...]


class Override(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user's file says of one model; absent keys leave the table's value. A model that is not in the table needs
    ``window``, or ``like``: the name of one whose data it takes over."""

    like: str | None = None
    window: int | None = None
    max_output: int | None = None
    input_cap: int | None = None
    generation: Generation | None = None
    thinking: Binding | None = None
    price: Price | None = None
    """[input, output, cache_read, cache_write_5m, cache_write_1h] in USD per million tokens."""
    tiers: tuple[Tier, ...] | None = None
    """[[above_tokens, price], …]"""
    cache: CacheRules | None = None
    body_limit: int | None = None


@cache
def load_table() -> Table:
    """The bundled table with its origin; read once."""
    return msgspec.json.decode(files(__package__).joinpath("models.json").read_bytes(), type=Table)


@cache
def load_models() -> Mapping[str, Model]:
    """The bundled models by id; read once."""
    return {model.id: model for model in load_table().models}


def lookup(
    name: str,
    *,
    overrides: Mapping[str, Override] | None = None,
    window: int | None = None,
    max_output: int | None = None,
) -> Model:
    """The model of this name in any of its usual spellings (names.py).

    ``window`` and ``max_output`` in tokens win over all data; with a window, an unknown name is a model without prices.
    Raises UnknownModelError where no window is known, InputError for a number that is not positive.
    """
    for what, value in (("window", window), ("max_output", max_output)):
        if value is not None and (isinstance(value, bool) or value <= 0):
            raise InputError(f"{what} must be a positive whole number of tokens, not {value!r}")
    parsed = parse_name(name)
    nobody = parsed.spellings[0] in _NO_MODEL
    model = None if nobody else _overridden(parsed, overrides or {}) or _bundled(parsed)
    if model is None:
        if window is None:
            raise UnknownModelError(_unknown(name, parsed, overrides or {}))
        model = _bare(name or "unknown", window)
    return _sized(model, window, max_output)


def _bundled(name: Name) -> Model | None:
    models = load_models()
    found = next((models[spelling] for spelling in name.spellings if spelling in models), None)
    return None if found is None else _as_named(found, name)


def _as_named(model: Model, name: Name) -> Model:
    """A model as the form of its name says it is served: host, region, long window, free of charge."""
    if name.host and model.provider == "anthropic":
        body_limit, image_bytes = _HOST_LIMITS[name.host]
        media = model.media and msgspec.structs.replace(model.media, max_image_bytes=image_bytes)
        model = msgspec.structs.replace(model, provider=name.host, body_limit=body_limit, media=media)
    if name.regional and model.prices:
        model = msgspec.structs.replace(model, prices=model.prices.times(model.regional_factor))
    if name.long_window:
        model = msgspec.structs.replace(model, window=max(model.window, LONG_WINDOW))
    if name.free:
        model = msgspec.structs.replace(model, prices=Prices(Price(0.0, 0.0, 0.0, 0.0, 0.0)))
    return model


def _overridden(name: Name, overrides: Mapping[str, Override]) -> Model | None:
    """The user's data over the table's; None where the file has no such name, or not enough for a model."""
    by_name = {key.strip().lower(): row for key, row in overrides.items()}
    found = next((row for spelling in name.spellings if (row := by_name.get(spelling))), None)
    if found is None:
        return None
    base = _bundled(parse_name(found.like)) if found.like else _bundled(name)
    if found.like and base is None:
        raise InputError(f"[{name.spellings[0]!r}] like: no data for the model {found.like!r}")
    if base is None:
        base = _bare(name.spellings[0], found.window) if found.window else None
    return None if base is None else _patched(base, found, name.spellings[0] if found.like else base.id)


def _patched(model: Model, row: Override, id: str) -> Model:
    given = {key: getattr(row, key) for key in ("input_cap", "generation", "thinking", "cache", "body_limit")}
    changes = {key: value for key, value in given.items() if value is not None}
    prices = model.prices
    if row.price is not None:
        prices = Prices(row.price, row.tiers or ())
    elif row.tiers is not None and prices is not None:
        prices = Prices(prices.base, row.tiers)
    return _sized(msgspec.structs.replace(model, id=id, prices=prices, **changes), row.window, row.max_output)


def _bare(name: str, window: int) -> Model:
    """A model of which only the window is known. Its output is set so that it lowers no reserve (W1, W7)."""
    return Model(name, "unknown", window, min(max(1, window // 4), MAX_ASSUMED_OUTPUT), assumed=("max_output",))


def _sized(model: Model, window: int | None, max_output: int | None) -> Model:
    if window is not None:
        cap = None if model.input_cap is None or window > model.window else min(model.input_cap, window)
        model = msgspec.structs.replace(model, window=window, input_cap=cap, max_output=min(model.max_output, window))
    if max_output is not None:
        assumed = tuple(field for field in model.assumed if field != "max_output")
        model = msgspec.structs.replace(model, max_output=min(max_output, model.window), assumed=assumed)
    return model


def _unknown(name: str, parsed: Name, overrides: Mapping[str, Override]) -> str:
    """Why there is no model, and the ways out."""
    by_window = "give its context window with --window N (tokens)"
    if parsed.spellings[0] in _NO_MODEL:
        what = f"{name!r} stands where no model spoke" if name.strip() else "no model is named"
        return f"{what}: name one with --model NAME, or {by_window}"
    by_file = f'with --models FILE that has a table ["{name}"] with window = N'
    return f"no data for the model {name!r}{_hint(parsed.spellings[-1], overrides)}. Name it in full, or {by_window}, or {by_file}"


def _hint(name: str, overrides: Mapping[str, Override]) -> str:
    """Names that may have been meant; for the bare name of a family, which models it has stood for."""
    known = load_models()
    family = sorted((id for id in known if name in id.split("-")), reverse=True)
    if family and "-" not in name:
        return f" (a short name whose model changes with time; {', '.join(family[:3])})"
    close = difflib.get_close_matches(name, [*overrides, *known], n=3, cutoff=0.75)
    return f" (close: {', '.join(close)})" if close else ""


def read_overrides(path: Path) -> Mapping[str, Override]:
    """A user's model file, TOML or JSON by its ending: one table a model, keys as in ``Override``.

    Raises InputError that names the file, the model and the key.
    """
    try:
        data = path.read_bytes()
        if path.suffix.lower() == ".json":
            rows: object = msgspec.json.decode(data)
        else:
            rows = tomllib.loads(data.decode())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=str(path)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"is neither TOML nor, with the ending .json, JSON: {error}", path=str(path)) from error
    if not isinstance(rows, dict):
        raise InputError('must hold one table a model, such as ["my-model"] window = 32768', path=str(path))
    return {name: _read_override(name, row, str(path)) for name, row in rows.items()}


def _read_override(name: str, row: object, path: str) -> Override:
    try:
        found = msgspec.convert(row, Override)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"[{name!r}] {_named(str(error))}", path=path) from error
    if wrong := _out_of_range(found, parse_name(name)):
        raise InputError(f"[{name!r}] {wrong}", path=path)
    return found


def _out_of_range(row: Override, name: Name) -> str | None:
    """What is wrong with values that have the right types; None where nothing is."""
    cache = row.cache or CacheRules()
    sizes = {"window": row.window, "max_output": row.max_output, "input_cap": row.input_cap, "body_limit": row.body_limit}
    sizes |= {f"cache.{key}": getattr(cache, key) for key in ("max_breakpoints", "look_back")}
    sizes["cache.ttl_seconds"] = min(cache.ttl_seconds)
    for key, value in sizes.items():
        if value is not None and value <= 0:
            return f"{key} must be a positive whole number, not {value}"
    if cache.min_tokens < 0:
        return f"cache.min_tokens must not be negative, but is {cache.min_tokens}"
    tiers = row.tiers or ()
    for price in (row.price, *(tier.price for tier in tiers)):
        if price and not all(0 <= part < math.inf for part in msgspec.structs.astuple(price)):
            return "price must be five numbers that are not negative"
    marks = [tier.above_tokens for tier in tiers]
    if marks != sorted(set(marks)) or any(mark <= 0 for mark in marks):
        return f"tiers must rise from one above_tokens to the next, but are {marks}"
    if tiers and row.price is None and row.like is None and _bundled(name) is None:
        return "tiers need a price"
    return None


def _named(error: str) -> str:
    """msgspec's message with the key first: ``Expected `int`, got `str` - at `$.window` `` reads ``window: expected …``."""
    text, _, place = error.partition(" - at `$")
    key = place.strip("`.")
    return f"{key}: {text[0].lower()}{text[1:]}" if key else text[0].lower() + text[1:]
