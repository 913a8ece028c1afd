"""The sections of a session memory by a model (S2), as a generator that yields requests and is sent answers: no clock, no network.

A fork: the conversation as it is sent, and behind it what is asked, so that the provider's cache is read. All that it can change is
the file, and of that only sections of the template. What comes back is taken whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from math import ceil
from typing import TypeAlias

import msgspec

from ..core.entries import Entry
from ..core.estimate import encode_json, measure_entry, pad
from ..core.messages import Text
from ..core.rejection import Rejection
from ..errors import SummaryError
from ..summarize.flow import ANSWER_SHARE, BODY_FRAME_BYTES, Answer, Ask, Wait
from ..summarize.parse import CUT_OFF, REFUSED, pause_before
from ..summarize.prompts import WORDS_PER_TOKEN
from ..summarize.render import open_results, sent_tokens
from .merge import inert, parts_of, trimmed
from .template import Section, Template, filled

SOURCE = "session_memory"
"""Query source: it never compacts by itself (A2)."""
MAX_REPEATS = 3
"""After transient errors the same request is sent again so often at most (L8)."""
LEAST_SHARE = 0.5
"""Where the window leaves less room than this share of the limits together, nothing is asked."""
_TAG = re.compile(r"<(/?)session-memory>")
_WHY_CHARS = 200

Made: TypeAlias = dict[str, list[str]]
"""Lines of sections, by name (``Section.name``)."""
Flow: TypeAlias = Generator[Ask | Wait, Answer | Rejection | None, Made]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for. Sizes are tokens where the name does not say otherwise."""

    entries: tuple[Entry, ...]
    """The conversation as it is sent, up to the last entry that is to be covered."""
    file: str
    """The memory as it is; empty where there is none."""
    template: Template
    prompt: str
    limits: Mapping[str, float]
    """Of each section, by name."""
    estimate: Callable[[str], float]
    """Unpadded tokens of a text."""
    window: int
    max_output: int
    sent_tokens: int | None = None
    """Size of ``entries`` as sent, system prompt and tools included (T2); None: the padded estimate."""
    body_limit: int | None = None
    """Bytes of a request (T7)."""


def write(task: Task) -> Flow:
    """The sections that a model wrote anew. Raises SummaryError, saying why, where it gave nothing that can be used."""
    ask = _ask(task)
    repeats = 0
    while True:
        got = yield ask
        if isinstance(got, Answer):
            return parsed(got, task.template)
        if got is None:
            raise SummaryError("the session memory was not written: no answer was given")
        pause = pause_before(repeats, got) if repeats < MAX_REPEATS else None
        if pause is None:
            told = " ".join(got.message.split())[:_WHY_CHARS] or got.why
            raise SummaryError(f"the session memory was not written: {told}{'' if got.status is None else f' ({got.status})'}")
        repeats += 1
        yield Wait(pause)


def _ask(task: Task) -> Ask:
    whole = sum(task.limits.values())
    words = {section.heading: max(5, int(task.limits[section.name] * WORDS_PER_TOKEN)) for section in task.template.sections}
    text = filled(task.prompt, task.template, inert(task.file).strip() or "(nothing yet)", words)
    size = pad(sent_tokens(task.entries, task.estimate)) if task.sent_tokens is None else task.sent_tokens
    room = task.window - size - pad(task.estimate(text))
    if room < LEAST_SHARE * whole:
        raise SummaryError(f"the session memory was not written: {size:,} tokens leave no room for it in a window of {task.window:,}")
    body = sum(measure_entry(entry).bytes for entry in task.entries) + len(encode_json(text)) + BODY_FRAME_BYTES
    if task.body_limit is not None and body > task.body_limit:
        raise SummaryError(f"the session memory was not written: its request would have {body:,} bytes, over {task.body_limit:,}")
    blocks = (*open_results(task.entries), Text(text))
    asking = Entry(id="memory-request", kind="user", blocks=blocks, source=SOURCE, meta=True)
    most = max(1, min(task.max_output, ceil(ANSWER_SHARE * whole), room))
    entries = (*task.entries, asking)
    return Ask(kind="fork", model="", system="", entries=entries, text=text, max_tokens=most, thinking="inherit", tools="inherit")


def parsed(answer: Answer, template: Template) -> Made:
    """The sections of an answer. Raises SummaryError for one that is cut off, refused, without its tags, empty, or that names what the
    template does not have."""
    if answer.stop_reason in CUT_OFF:
        raise SummaryError("the session memory was not written: the answer was cut off by its limit")
    if answer.stop_reason in REFUSED:
        raise SummaryError("the session memory was not written: the model refused")
    made: Made = {}
    for part in parts_of(_between(answer), template):
        if part.section is None:
            what = (
                "text in front of the first section" if part.heading is None else f"a section that is not in the template: {part.heading}"
            )
            raise SummaryError(f"the session memory was not written: the answer has {what[:_WHY_CHARS]}")
        if part.section.name in made:
            raise SummaryError(f"the session memory was not written: the answer has {part.section.heading!r} twice")
        made[part.section.name] = _lines(part.section, part.lines)
    if not any(made.values()):
        raise SummaryError("the session memory was not written: the answer says nothing")
    return made


def _between(answer: Answer) -> str:
    """What stands between the tags, which have to be one pair; a draft in front of them is thrown away."""
    tags = list(_TAG.finditer(answer.text))
    if [tag[1] for tag in tags] != ["", "/"]:
        what = "a tool call" if answer.called_tool and not tags else "no text between <session-memory> tags" if not tags else "torn tags"
        raise SummaryError(f"the session memory was not written: the answer has {what}")
    text = answer.text[tags[0].end() : tags[1].start()].strip()
    if not text:
        raise SummaryError("the session memory was not written: the answer is empty")
    return text


def _lines(section: Section, lines: tuple[str, ...]) -> list[str]:
    """A section's lines, without secrets and marks that could pass for ours; empty ones only between others, none twice."""
    clean = trimmed(inert("\n".join(lines)).split("\n"))
    asks = section.asks.strip()
    return [line.rstrip() for i, line in enumerate(clean) if (line.strip() or clean[i - 1].strip()) and line.strip() != asks]
