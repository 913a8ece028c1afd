"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ..core.transcript import Transcript
from ..formats.registry import read_transcript
from .places import latest

Command = TypeVar("Command", bound=Callable[..., Any])


def input_options(command: Command) -> Command:
    """FILE or --latest, --conversation, --strict, --json."""
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
    if (file is None) == (not use_latest):
        raise click.UsageError("give either a FILE or --latest")
    return read_transcript(file if file is not None else latest(), strict=strict)
