"""The texts of a conversation, one for each block that says something, with who speaks and in which round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..core.entries import Entry
from ..core.pairing import Round
from .index import SPARSE_CHARS as SPARSE_CHARS
from .references import Extractor
from .spoken import TOOL_MARK as TOOL_MARK
from .spoken import Unit as Unit
from .spoken import Voice as Voice
from .spoken import is_person as is_person
from .spoken import is_told_result as is_told_result
from .spoken import is_unread as is_unread
from .spoken import spoken as spoken
from .spoken import strings as strings


class Texts(NamedTuple):
    """The units of a conversation in order, and the extractor that knows the kind of each reference in them."""

    units: list[Unit]
    extractor: Extractor


def texts_of(entries: Sequence[Entry], rounds: Sequence[Round] | None = None, known: Extractor | None = None) -> Texts:
    """All units with their references. Summaries, notes, thinking and media say nothing here. ``known``: a memory of the same
    conversation. ``rounds`` may be left out: a unit's round is the one that ``core.pairing.rounds`` counts."""
    extractor = (known or Extractor()).knowing(entries)
    return Texts(extractor.index.units, extractor)


def refs_where(units: Iterable[Unit], wanted: Callable[[Unit], bool]) -> set[str]:
    """All references of the units that are wanted."""
    return set().union(*(unit.refs for unit in units if wanted(unit)))
