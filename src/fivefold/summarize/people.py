"""What people said, verbatim, with a budget of its own: over it the oldest long pastes go first, to a pointer (L12)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .redact import redact
from .spoken import Unit

PASTE_CHARS = 1_000
"""A message at least this long is a paste, and goes before any shorter one."""
PASTE_TOKENS = 300
"""So is one of so many tokens: some scripts say in few characters what takes many."""
COMMON = 3
"""A word in so many messages tells little."""
_WORD = re.compile(r"[^\W\d_]+")
SHORT_CHARS = 400
"""What is left of a paste, three quarters of it from its start; of the first and of the newest message more, if it fits."""


class Said(NamedTuple):
    """One message of a person. ``whole``: it stands verbatim. ``answer``: it answers a question that a tool put, or refuses a call."""

    entry: str
    text: str
    whole: bool = True
    answer: bool = False


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
                said[-1] = Said(entry, f"{said[-1].text}\n{text}", answer=said[-1].answer and bool(unit.tool))
            else:
                said.append(Said(entry, text, answer=bool(unit.tool)))
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
    gone: set[str] = set()
    for i in _commonest_first([one.text for one in said], inner) if over > 0 else ():
        if over <= 0:
            break
        over -= sizes[i]
        gone.add(said[i].entry)
    dropped = tuple(one.entry for one in said if one.entry in gone)
    return People(tuple(one for one in said if one.entry not in gone), dropped)


def _commonest_first(texts: Sequence[str], places: Sequence[int]) -> list[int]:
    """Which messages say least that no other says: by the share of their words that stand in three or more messages, of equals the
    oldest first. “Go on with the next one, thanks” goes before a rule that was said once, in any language."""
    words = [_words_of(text) for text in texts]
    count = Counter(word for each in words for word in each)
    common = {i: sum(count[word] >= COMMON for word in words[i]) / max(1, len(words[i])) for i in places}
    return sorted(places, key=lambda i: (-round(common[i], 1), i))


def _words_of(text: str) -> set[str]:
    """The words of a text, numbers left out; of scripts without spaces the pairs of letters."""
    found: set[str] = set()
    for word in _WORD.findall(text.lower()):
        if word.isascii():
            found.add(word)
        else:
            found.update(word[i : i + 2] for i in range(max(1, len(word) - 1)))
    return found


def pointed(said: Said, chars: int) -> Said:
    """A long message as so many characters of its start and end, and where the whole of it is."""
    chars = min(chars, len(said.text) - PASTE_CHARS // 4)
    start, end = said.text[: chars * 3 // 4].rstrip(), said.text[-(chars // 4) :].lstrip()
    left = len(said.text) - len(start) - len(end)
    return said._replace(text=f"{start}\n[… {left:,} characters: recall {said.entry} …]\n{end}", whole=False)
