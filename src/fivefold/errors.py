"""Every error that fivefold raises on purpose.

FivefoldError
├── InputError                what was given cannot be used: file, line and the way out are named
│   ├── UnknownFormatError        no reader recognises the content
│   └── BadLineError              a line that cannot be read, in strict mode
├── LogError                  a record that does not fit the log it is appended to
│   ├── DuplicateIdError
│   └── FoldError                 a fold whose targets are not there, or an undo of nothing
├── PolicyError               a setting that is unknown or out of range, named
├── CompactionError           a compaction that could not be done; the conversation is what it was
│   ├── CannotFitError            nothing more can be folded: the largest parts are named (A8)
│   ├── PlanError                 a plan made for a history that has since moved on (X6)
│   ├── PinError                  a pin over the budget of all pins, or of what is not there (X7)
│   ├── SummaryError              no usable summary came (L3, L7, L8)
│   ├── VetoedError               a hook refused it (P2)
│   └── IllegalEventError         an event that the engine's state does not take
├── RejectedError             the provider refused the request and it could not be recovered (R5)
│   ├── PromptTooLongError        with the numbers where told
│   └── MediaRejectedError        an image or a document
├── UnknownModelError         no window is known for a model (V3)
├── SimulatorError            the simulator cannot be started as asked, or was used otherwise than planned (U4)
│   ├── UnexpectedRequestError    a request that no step of the script answers
│   └── LeftoverStepsError        steps of a script, or planned faults, that no request has used
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


class CompactionError(FivefoldError):
    """A compaction that could not be done; log and view are what they were."""


class CannotFitError(CompactionError):
    """Nothing more can be folded and it still does not fit. ``largest`` names the largest parts, in tokens (A8)."""

    def __init__(self, message: str, *, largest: tuple[tuple[str, int], ...] = ()) -> None:
        super().__init__(message)
        self.largest = largest


class PlanError(CompactionError):
    """A plan made for a history that has since moved on (X6)."""


class PinError(CompactionError):
    """A pin over the budget of all pins, or of an entry that is not there (X7)."""


class SummaryError(CompactionError):
    """No usable summary came: empty, refused, an error's text, or none within the retries (L3, L7, L8)."""


class VetoedError(CompactionError):
    """A pre-compact hook refused the compaction (P2)."""


class IllegalEventError(CompactionError):
    """An event that the engine does not take in its phase; the state is unchanged."""


class RejectedError(FivefoldError):
    """The provider refused the request and recovery failed or was off (R5, A3). Numbers are tokens, None where not told."""

    def __init__(self, message: str, *, actual: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.actual = actual
        self.limit = limit


class PromptTooLongError(RejectedError):
    """The input is over the window."""


class MediaRejectedError(RejectedError):
    """An image or a document is larger than the provider takes, or there are too many."""


class UnknownModelError(FivefoldError):
    """No data for a model; the message says how to give its window (V3)."""


class SimulatorError(FivefoldError):
    """The simulator cannot be started as asked, or what was asked of it is not what was planned (U4)."""


class UnexpectedRequestError(SimulatorError):
    """Requests came that the script has no step for; the message names them (U4)."""


class LeftoverStepsError(SimulatorError):
    """Steps of the script, or planned faults, are left that no request has used; the message names them (U4)."""


class StoreError(FivefoldError):
    """The session file cannot be used as asked."""


class LockedError(StoreError):
    """Another process writes this session file (K3)."""


class WriteError(StoreError):
    """The session file could not be written; nothing acknowledged is lost (K5)."""
