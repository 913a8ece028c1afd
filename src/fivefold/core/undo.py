"""Folds taken back (X5), and what has to go with them: what they had put behind the end, and thinking that is bound to what they
showed (I7). That is one more fold, which nobody decided on and which is never taken back itself."""

from __future__ import annotations

from ..errors import FoldError
from . import ops
from .actions import Action
from .edits import cut, rebuild, thinking
from .entries import Entry, Fold, HideEntries, Unfold
from .events import Undone
from .log import Log
from .state import State


def undone(state: State, out: list[Action], event: Undone) -> State:
    """All of the folds taken back, or none. Raises FoldError."""
    if not event.folds:
        raise FoldError("there is no fold to take back")
    if any(placed.fold.id in event.folds and placed.fold.level in thinking.FOLLOWS for placed in state.log.folds):
        raise FoldError("a fold that follows from another one, or from a late result, is not taken back")
    since = _since(state.log, event.folds)
    state = ops.append(state, out, *(Unfold(fold=id, time=event.now) for id in event.folds))
    shown = state.view.shown()
    changed = next((i for i, item in enumerate(shown) if item.position >= since and item.side == 0), len(shown))
    if thinking.is_bound(state.setup.model):
        changed = min(changed, thinking.out_of_order(state.view) or changed)
    bound = thinking.bound(state.view, state.setup.model, changed)
    if bound.way == "wait" and not state.setup.policy.thinking.drop_setting:
        raise FoldError("a tool loop is open whose thinking is bound to these folds (I7): take them back when it has ended")
    gone = {record.fold for record in state.log.records() if isinstance(record, Unfold)}
    left = tuple(item.entry.id for item in shown if rebuild.fold_of(item.entry.id) in gone)
    changes = thinking.settled((HideEntries(left),) if left else (), bound)
    if changes:
        fold = Fold(id=cut.fold_id(state.log), level="undo", changes=changes, why="left by folds taken back", time=event.now)
        state = ops.append(state, out, fold)
    waiting = tuple(entry for entry in state.tracking.waiting if rebuild.fold_of(entry.id) not in gone)
    drop = state.tracking.drop_thinking or bound.way == "wait"
    return ops.track(state, left=None, failed_on="", staged=(), waiting=waiting, drop_thinking=drop)


def _since(log: Log, folds: tuple[str, ...]) -> int:
    """How many entries had been said when the first of these folds was made: what was thought later was thought under them. A rewind
    has taken others back, which do not return with what it hid, so they count as well."""
    made: dict[str, int] = {}
    rewound, gone, said = False, set(folds), log.base
    for record in log.records():
        match record:
            case Entry():
                said += 1
            case Fold(id=id, level=level):
                made[id] = said
                rewound = rewound or (id in folds and level == "rewind")
            case Unfold(fold=id):
                gone.add(id)
    return min((made[id] for id in (gone if rewound else folds) if id in made), default=0)
