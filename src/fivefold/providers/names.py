"""The many spellings of one model's name, reduced by fixed rules and never by likeness (V3).

A gateway puts its path in front, Bedrock a region and a vendor, Vertex a date behind ``@``, Claude Code a ``[1m]``; ids
carry dates. ``spellings`` gives the names to try in order, the most exact first.
"""

from __future__ import annotations

import re

import msgspec

_BEDROCK = re.compile(
    r"(?:(?P<region>us-gov|us|eu|apac|jp|au|ca|sa|global)\.)?"
    r"(?:anthropic|amazon|meta|mistral|deepseek|openai|qwen|moonshotai|moonshot|minimax|google|nvidia|zai|cohere|ai21)\.(?P<rest>.+)"
)
_BEDROCK_VERSION = re.compile(r"-v\d+(?::\d+)?(?::\d+k)?$")
_DATE = re.compile(r"(?:[-@]20\d{6}|-20\d\d-\d\d-\d\d)(?=$|:)")
_AT = re.compile(r"@[\w.-]+$")
_ROUTE = re.compile(r":(?:free|thinking|beta|nitro|floor|online|exacto|extended)$")
"""Variants at OpenRouter that are the same model on another route."""
_CLAUDE_NUMBER_FIRST = re.compile(r"claude-([4-9](?:-\d)?)-(opus|sonnet|haiku|fable|mythos)\b")
_CLAUDE_3_NUMBER_LAST = re.compile(r"claude-(opus|sonnet|haiku)-(3(?:-\d)?)\b")
_LONG_WINDOW = "[1m]"
_BEDROCK_PATHS = ("bedrock", "bedrock_converse", "bedrock_mantle", "amazon-bedrock")
_VERTEX_PATHS = ("vertex_ai", "vertex", "google-vertex")


class Name(msgspec.Struct, frozen=True):
    """A name taken apart."""

    spellings: tuple[str, ...]
    """What to look for, in order; the first is the name as given, in lower case."""
    host: str | None = None
    """``bedrock`` or ``vertex`` where the name says so."""
    regional: bool = False
    """Whether it names an endpoint that is bound to a region."""
    long_window: bool = False
    """Whether it asks for the window of a million tokens (Claude Code's ``[1m]``)."""
    free: bool = False
    """Whether it is the route that costs nothing (OpenRouter's ``:free``)."""
    dated: str = ""
    """Without path, vendor and route, but with its date: the name under which data of several sources are joined."""


def parse_name(name: str) -> Name:
    """A model's name taken apart; unknown forms come back with themselves as their only spelling."""
    text = name.strip().lower()
    long_window = text.endswith(_LONG_WINDOW)
    text = text.removesuffix(_LONG_WINDOW)
    *path, tail = text.split("/")
    host = _host(path, tail)
    exact = [text, tail]
    bedrock = _BEDROCK.fullmatch(tail)
    region = None
    if bedrock:
        region = bedrock["region"]
        tail = _BEDROCK_VERSION.sub("", bedrock["rest"])
        exact.append(tail)
    dated = _claude(_without_route(tail))
    spellings = tuple(dict.fromkeys(exact + _reduced(tail)))
    return Name(spellings, host, region not in (None, "global"), long_window, tail.endswith(":free"), dated)


def _host(path: list[str], tail: str) -> str | None:
    if _BEDROCK.fullmatch(tail) or any(part in _BEDROCK_PATHS for part in path):
        return "bedrock"
    if any(part in _VERTEX_PATHS for part in path) or (tail.startswith("claude") and "@" in tail):
        return "vertex"
    return None


def _reduced(name: str) -> list[str]:
    """Further spellings of a name without path: Claude's word order, then without route, date and ``-latest``."""
    found = [name]
    for step in (_without_route, _claude, _without_date, _without_latest):
        changed = step(found[-1])
        if changed != found[-1]:
            found.append(changed)
    return found


def _claude(name: str) -> str:
    """``claude-opus-4.8``, ``claude-4.8-opus`` and ``claude-sonnet-4-0`` as the provider writes them now."""
    if not name.startswith("claude"):
        return name
    name = _BEDROCK_VERSION.sub("", name).replace(".", "-")
    name = _CLAUDE_NUMBER_FIRST.sub(r"claude-\2-\1", name)
    name = _CLAUDE_3_NUMBER_LAST.sub(r"claude-\2-\1", name)
    return re.sub(r"^(claude-(?:opus|sonnet)-4)-0$", r"\1", name)


def _without_route(name: str) -> str:
    return _ROUTE.sub("", name)


def _without_date(name: str) -> str:
    return _AT.sub("", _DATE.sub("", name))


def _without_latest(name: str) -> str:
    return name.removesuffix("-latest")
