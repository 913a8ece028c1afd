"""Options that several commands share."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..core.transcript import Transcript
from ..errors import InputError
from ..formats.registry import read_transcript
from .places import newest_first

MOST_TRIED = 10
Command = TypeVar("Command", bound=Callable[..., Any])


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
