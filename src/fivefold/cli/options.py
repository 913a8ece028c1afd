"""Options that several commands share."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from ..core.log import Log
from ..core.policy import Policy
from ..core.state import Setup
from ..core.transcript import Transcript
from ..core.view import view_of
from ..errors import InputError, UnknownModelError
from ..formats.registry import read_transcript
from ..providers.models import read_overrides
from ..setup import make_setup
from .places import newest_first

MOST_TRIED = 10
MOST_NAMED = 5
PLACES = ("line", "message")
Command = TypeVar("Command", bound=Callable[..., Any])


class Judged(NamedTuple):
    """What the options say of the model that a conversation is for; tokens."""

    model: str | None = None
    window: int | None = None
    max_output: int | None = None
    models_file: Path | None = None


def input_options(command: Command) -> Command:
    """FILE (``-``: standard input) or --latest, --conversation, --strict, --json."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON with a versioned schema."),
        click.option("--strict", is_flag=True, help="Refuse the file at its first bad line instead of listing bad lines."),
        click.option("--conversation", metavar="N", help="Which conversation of the file, by number or name; the main one by default."),
        click.option("--latest", "use_latest", is_flag=True, help="Take the newest session of the agents that keep them in known places."),
        click.argument("file", type=click.Path(path_type=Path), required=False),
    ):
        command = option(command)
    return command


def model_options(command: Command) -> Command:
    """--model, --window, --max-output, --models: the fields of ``Judged``."""
    for option in (
        click.option(
            "--models", "models_file", type=click.Path(path_type=Path), metavar="FILE", help="Model data of your own, TOML or JSON."
        ),
        click.option("--max-output", type=click.IntRange(min=1), metavar="TOKENS", help="Maximum output, instead of the model's."),
        click.option("--window", type=click.IntRange(min=1), metavar="TOKENS", help="Context window, instead of the model's."),
        click.option("--model", metavar="NAME", help="The model to judge by, instead of the one that the file names."),
    ):
        command = option(command)
    return command


def setup_of(log: Log, judged: Judged, *, policy: Policy | None = None, overhead: int | None = None, transcript: str = "") -> Setup:
    """What the conversation runs under: the model that is asked for, else the last one that it names. Raises UnknownModelError where
    no window is known (V3)."""
    name = judged.model or log.head.model or next((entry.model for entry in reversed(list(log.entries())) if entry.model), None)
    if name is None and judged.window is None and log.head.window is None:
        raise UnknownModelError("the file names no model, so no window is known: give --model NAME or --window TOKENS")
    return make_setup(
        name,
        window=judged.window,
        max_output=judged.max_output,
        policy=policy,
        head=log.head,
        overrides=read_overrides(judged.models_file) if judged.models_file else None,
        overhead=overhead,
        transcript=transcript,
    )


def last_time(log: Log) -> float:
    """When the newest entry was said, in seconds since the epoch; 0 where none says. It is the time of what a command appends: the
    same file gives the same bytes, whenever it is run."""
    return max((entry.time for entry in log.entries() if entry.time is not None), default=0.0)


def entry_id(log: Log, wanted: str, path: str | None = None, *, shown: bool = True) -> str:
    """The id of an entry named by its id, by the beginning of it that no other has, or by its place (``line:120``, ``message:7``, as
    ``inspect`` shows it). ``shown``: only what is in view is meant. Raises InputError where there is none, or several."""
    view = view_of(log)
    entries = list(view.entries() if shown else log.entries())
    if any(entry.id == wanted for entry in entries):
        return wanted
    place, _, number = wanted.partition(":")
    if place in PLACES and number.isdecimal():
        found = [entry.id for entry in entries if entry.line == int(number)][:1]
    else:
        found = [entry.id for entry in entries if wanted and entry.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{len(found)} entries begin with {wanted!r}: {', '.join(found[:MOST_NAMED])}", path=path)
    if log.find(wanted) is not None:
        raise InputError(f"entry {wanted!r} is folded away; name one that is in view", path=path)
    lines = [entry.line for entry in entries if entry.line is not None] if place in PLACES else []
    where = f"; there are {min(lines):,} to {max(lines):,}" if lines else ""
    what = "in view" if shown else "in it"
    raise InputError(f"no entry {wanted!r} {what}{where}; give an id, the beginning of one, or {PLACES[0]}:NUMBER", path=path)


def load(file: Path | None, use_latest: bool, strict: bool) -> Transcript:
    """The transcript that the options name."""
    gc.disable()  # one pass over one file, then the process ends: collections would only cost, more with every entry
    if (file is None) == (not use_latest):
        raise click.UsageError("give either a FILE or --latest")
    if file is not None:
        return read_transcript(file, strict=strict)
    unreadable: InputError | None = None
    for path in itertools.islice(newest_first(), MOST_TRIED):
        try:
            return read_transcript(path, strict=strict)
        except InputError as error:  # a file of titles only, say: the session before it is meant
            unreadable = unreadable or error
    raise unreadable or InputError("no session found")
