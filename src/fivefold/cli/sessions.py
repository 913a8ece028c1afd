"""fivefold sessions that a command changes: opened, locked, and what could not be written is an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..core.log import Log
from ..core.state import Setup
from ..errors import InputError, StoreError, UnknownModelError
from ..formats import session as session_format
from ..formats.registry import read_transcript
from ..store.session import Session
from .options import Judged, setup_of

NO_WINDOW = 1_000_000
"""Stands in where no window is known and none matters: nothing is measured against it, and nothing of it is told."""


@contextmanager
def writing(path: Path) -> Iterator[Session]:
    """A session to be changed, its whole history loaded. Raises StoreError where what was appended is not in the file (K5)."""
    with Session.open(path, history=True) as session:
        if session.set_aside is not None:
            click.echo(f"note: {path}: its end had not been written whole; it was cut off and is kept as {session.set_aside}", err=True)
        yield session
    if session.problems:
        raise StoreError(str(session.problems[-1]))


def check_session(path: Path, what: str) -> None:
    """Raises InputError where a file is no fivefold session, naming the way out. ``what`` is what was wanted of it."""
    transcript = read_transcript(path)
    if transcript.format != session_format.NAME:
        way_out = f"`fivefold compact {path} -o OUT` makes one"
        raise InputError(
            f"is a {transcript.format} file, which fivefold never changes; {what} a fivefold session: {way_out}", path=transcript.path
        )


def setup_for_sizes(log: Log) -> Setup:
    """What sizes are measured by, where the window does not matter."""
    try:
        return setup_of(log, Judged())
    except UnknownModelError:
        return setup_of(log, Judged(window=NO_WINDOW))
