"""A compaction as a value: what it would do, looked at, edited, and applied or dropped (X5, X6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from .core.edits.rebuild import summary_of, with_text
from .core.entries import Entry, Fold, Record
from .core.messages import Object
from .core.remember import KEY, noted
from .core.repair import violations
from .core.state import State, Tracking
from .core.turns import Finding
from .errors import PlanError


class LevelRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one level did or why it did not. Tokens as the meter counts them."""

    level: str
    path: str
    applied: bool
    tokens_before: int
    tokens_after: int
    folds: tuple[str, ...] = ()
    why: str = ""
    llm_calls: int = 0

    @property
    def tokens_freed(self) -> int:
        """What went; 0 where it was not applied."""
        return self.tokens_before - self.tokens_after if self.applied else 0


class Plan(NamedTuple):
    """What a compaction would do. ``base``: the state that it was made for; ``state``: the one that it leads to."""

    base: State
    state: State
    levels: tuple[LevelRow, ...]
    success: bool
    why: str
    """Why it is no success, or needs none; empty where it is one."""
    llm_calls: int = 0
    events: tuple[Object, ...] = ()

    @property
    def records(self) -> tuple[Record, ...]:
        """What is to be put behind the log."""
        return tuple(self.state.log.records(self.base.log.record_count))

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The folds among them."""
        return tuple(record for record in self.records if isinstance(record, Fold))

    @property
    def changes_anything(self) -> bool:
        """Whether applying it would change what is shown."""
        return bool(self.folds)

    @property
    def before(self) -> int:
        """Tokens of the view now."""
        return self.base.used

    @property
    def after(self) -> int:
        """Tokens of the view that it leads to."""
        return self.state.used

    @property
    def summary(self) -> str:
        """The text that would stand for what goes; empty where nothing is summarised."""
        return next((text for fold in reversed(self.folds) if (text := summary_of(fold))), "")

    @property
    def goes(self) -> tuple[str, ...]:
        """Ids of the entries that would no longer be shown."""
        after = {item.entry.id for item in self.state.view.shown()}
        return tuple(item.entry.id for item in self.base.view.shown() if item.entry.id not in after)

    @property
    def stays(self) -> tuple[str, ...]:
        """Ids of the entries that stay in view."""
        before = {item.entry.id for item in self.base.view.shown()}
        return tuple(item.entry.id for item in self.state.view.shown() if item.entry.id in before)

    @property
    def violations(self) -> tuple[Finding, ...]:
        """What a provider would refuse in the view that it leads to."""
        setup = self.state.setup
        return tuple(violations(list(self.state.view.sent()), family=setup.family, foreign=setup.foreign))

    def edited(self, summary: str) -> Plan:
        """The same with another summary text. Raises PlanError where there is none to change, or the text is empty."""
        if not self.summary or not summary.strip():
            raise PlanError("this plan makes no summary that could be edited" if not self.summary else "the summary may not be empty")
        fold = next(fold for fold in reversed(self.folds) if summary_of(fold))
        changed = with_text(fold, summary)
        used = self.base.with_records(*(changed if record is fold else record for record in self.records)).used
        changed = msgspec.structs.replace(changed, tokens_after=used)
        tracking = msgspec.structs.replace(self.state.tracking, left=used)
        state = self.base.with_records(*(_again(record, fold, changed, tracking) for record in self.records))
        return self._replace(
            state=self.state._replace(log=state.log, view=state.view, ledger=state.ledger, tracking=tracking, remembered=tracking),
            levels=tuple(msgspec.structs.replace(row, tokens_after=used) if fold.id in row.folds else row for row in self.levels),
            events=tuple({**event, "tokens_after": used} if event.get("fold") == fold.id else event for event in self.events),
        )

    def check(self, now: State) -> None:
        """Raises PlanError where the conversation is no longer the one that this was made for (X6)."""
        if now.log is not self.base.log and now.log != self.base.log:
            grown = now.log.record_count - self.base.log.record_count
            raise PlanError(f"the conversation has moved on since this plan was made ({grown:+} records): make a new one")


def _again(record: Record, fold: Fold, changed: Fold, tracking: Tracking) -> Record:
    """A record of a plan whose fold was changed: the note about it says the same of the new one."""
    if record is fold:
        return changed
    return noted(record, tracking) if isinstance(record, Entry) and KEY in record.extra else record


def rows_of(emits: Sequence[tuple[str, Object]]) -> tuple[LevelRow, ...]:
    """The levels that events tell of, in order."""
    rows = []
    for name, fields in emits:
        if name in ("folded", "compaction_finished"):
            rows.append(
                LevelRow(
                    level=str(fields["level"]),
                    path=str(fields.get("path", "")),
                    applied=True,
                    tokens_before=int(str(fields.get("tokens_before") or 0)),
                    tokens_after=int(str(fields.get("tokens_after") or 0)),
                    folds=(str(fields["fold"]),),
                    why=str(fields.get("why", "")),
                    llm_calls=int(str(fields.get("llm_calls") or 0)),
                )
            )
        elif name == "compaction_failed":
            tokens = int(str(fields["tokens"]))
            rows.append(
                LevelRow(
                    level=str(fields["trigger"]),
                    path="",
                    applied=False,
                    tokens_before=tokens,
                    tokens_after=tokens,
                    why=str(fields["why"]),
                    llm_calls=int(str(fields["llm_calls"])),
                )
            )
    return tuple(rows)
