"""What people said, verbatim, with a budget of its own: over it the oldest long pastes go first, to a pointer (L12)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .redact import redact
from .spoken import Unit

PASTE_CHARS = 1_000
"""A message at least this long is a paste, and goes before any shorter one."""
PASTE_TOKENS = 300
"""So is one of so many tokens: some scripts say in few characters what takes many."""
SHORT_CHARS = 400
"""What is left of a paste, three quarters of it from its start; of the first and of the newest message more, if it fits."""


class Said(NamedTuple):
    """One message of a person. ``whole``: it stands verbatim."""

    entry: str
    text: str
    whole: bool = True


class People(NamedTuple):
    """The messages in order; ``dropped`` are the ids of the oldest ones for which there was no room at all."""

    said: tuple[Said, ...]
    dropped: tuple[str, ...]

    def texts(self) -> list[str]:
        """What is shown."""
        return [said.text for said in self.said]


def people_of(units: Sequence[Unit], id_of: Callable[[int], str], budget: float, estimate: Callable[[str], float]) -> People:
    """The people's words among the units. The first and the newest message are the last to be shortened, never dropped."""
    said: list[Said] = []
    for unit in units:
        if unit.voice == "person":
            text = redact(unit.text).strip()
            entry = id_of(unit.entry)
            if said and said[-1].entry == entry:
                said[-1] = Said(entry, f"{said[-1].text}\n{text}")
            else:
                said.append(Said(entry, text))
    sizes = [estimate(one.text) for one in said]
    over = sum(sizes) - budget
    if over <= 0:
        return People(tuple(said), ())
    inner, ends = list(range(1, len(said) - 1)), [i for i in (0, len(said) - 1) if i >= 0]
    for i in [*inner, *dict.fromkeys(ends)]:
        if over > 0 and (
            len(said[i].text) >= PASTE_CHARS or (sizes[i] >= PASTE_TOKENS and len(said[i].text) > SHORT_CHARS + PASTE_CHARS // 4)
        ):
            room = int(budget / 2 * len(said[i].text) / max(1.0, sizes[i])) - PASTE_CHARS // 4 if i in ends else 0
            said[i] = pointed(said[i], max(SHORT_CHARS, room))
            over -= sizes[i] - (small := estimate(said[i].text))
            sizes[i] = small
    dropped: list[str] = []
    for i in inner:
        if over <= 0:
            break
        over -= sizes[i]
        dropped.append(said[i].entry)
    gone = set(dropped)
    return People(tuple(one for one in said if one.entry not in gone), tuple(dropped))


def pointed(said: Said, chars: int) -> Said:
    """A long message as so many characters of its start and end, and where the whole of it is."""
    chars = min(chars, len(said.text) - PASTE_CHARS // 4)
    start, end = said.text[: chars * 3 // 4].rstrip(), said.text[-(chars // 4) :].lstrip()
    left = len(said.text) - len(start) - len(end)
    return Said(said.entry, f"{start}\n[… {left:,} characters: recall {said.entry} …]\n{end}", False)
