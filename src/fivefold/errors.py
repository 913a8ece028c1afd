"""Every error that fivefold raises on purpose.

FivefoldError
├── InputError                what was given cannot be used: file, line and the way out are named
│   ├── UnknownFormatError        no reader recognises the content
│   └── BadLineError              a line that cannot be read, in strict mode
├── LogError                  a record that does not fit the log it is appended to
│   ├── DuplicateIdError
│   └── FoldError                 a fold whose targets are not there, or an undo of nothing
├── PolicyError               a setting that is unknown or out of range, named
├── UnknownModelError         no window is known for a model (V3)
└── StoreError                the session file
    ├── LockedError               another process writes it (K3)
    └── WriteError                it could not be written; the conversation goes on in memory (K5)
"""

from __future__ import annotations


class FivefoldError(Exception):
    """Root of the tree: catch this to catch all of ours."""


class InputError(FivefoldError):
    """Input that cannot be used. ``path`` and ``line`` name the place where known."""

    def __init__(self, message: str, *, path: str | None = None, line: int | None = None) -> None:
        place = "" if path is None else (path if line is None else f"{path}:{line}")
        super().__init__(f"{place}: {message}" if place else message)
        self.message = message
        self.path = path
        self.line = line


class UnknownFormatError(InputError):
    """No reader recognises the content (Z3)."""


class BadLineError(InputError):
    """A line that cannot be read, raised in strict mode instead of being listed (Z3)."""


class LogError(FivefoldError):
    """A record that does not fit the log it is appended to; the log is unchanged."""


class DuplicateIdError(LogError):
    """An entry or fold id that the log already holds (I4)."""


class FoldError(LogError):
    """A fold whose targets are not in the log, or an undo of a fold that is not in force."""


class PolicyError(FivefoldError):
    """A policy field that is unknown or out of range; the message names it (P1)."""


class UnknownModelError(FivefoldError):
    """No data for a model; the message says how to give its window (V3)."""


class StoreError(FivefoldError):
    """The session file cannot be used as asked."""


class LockedError(StoreError):
    """Another process writes this session file (K3)."""


class WriteError(StoreError):
    """The session file could not be written; nothing acknowledged is lost (K5)."""
