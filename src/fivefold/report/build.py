"""From a transcript to its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..core.economics import Model
from ..core.entries import SHOWN_AS, Entry, Fold, Head
from ..core.estimate import Measure, measure_blocks, measure_entry
from ..core.generation import Generation
from ..core.log import Log, stand_ins
from ..core.messages import Block
from ..core.pairing import tool_calls
from ..core.repair import violations
from ..core.tokens import Ledger, Size
from ..core.transcript import Conversation, Transcript
from ..core.turns import Family
from ..core.window import Window, state_of, window_of
from ..errors import InputError, UnknownModelError
from ..providers.models import Override, lookup
from .breakdown import break_down
from .model import BadLineRow, CompactionRow, ConversationRow, Report, State, Tokens, Violation, WindowNumbers
from .timeline import empty_view, live_through

MESSAGES = ("user", "assistant", "system")


class Options(NamedTuple):
    """What the caller says of the model and the window; tokens."""

    model: str | None = None
    window: int | None = None
    max_output: int | None = None
    conversation: str | None = None
    overrides: Mapping[str, Override] = {}


class _Known(NamedTuple):
    """What is known of the model, and why nothing is where nothing is."""

    name: str | None
    model: Model | None
    note: str | None
    unknown: bool


class Inspection(NamedTuple):
    """A report, and whether the model that the file names is unknown (which ends ``inspect`` with an error, V3)."""

    report: Report
    unknown_model: bool


def inspect(transcript: Transcript, options: Options | None = None) -> Inspection:
    """The report of one conversation of a transcript, the main one unless ``options.conversation`` names another.

    Raises InputError for a conversation that is not there, UnknownModelError where ``options.model`` is not known.
    """
    options = options or Options()
    chosen = choose(transcript, options.conversation)
    known = _model_of(chosen.log, options)
    generation: Generation = known.model.generation if known.model else "unknown"
    image_cap = known.model.image_cap if known.model else 2000

    def measure(entry: Entry) -> Measure:
        return measure_entry(entry, generation, image_cap)

    def size_of(block: Block) -> int:
        return measure_blocks((block,), generation, image_cap).tokens

    head = chosen.log.head
    overhead = measure_blocks(head.system, generation, image_cap) if head.system else Measure(0, 0, False)
    timeline = live_through(chosen.log, Ledger(empty_view(chosen.log), measure, overhead=overhead), measure)
    ledger = timeline.ledger
    size = ledger.size()
    view = list(ledger.view.entries())
    fixed = overhead.tokens if ledger.calibration.overhead is None else ledger.calibration.overhead
    tables = break_down(view, ledger.measures, size_of, size.used, min(fixed, size.used), head.cwd)
    window = _window(known.model) if known.model else None
    report = Report(
        file=transcript.path,
        format=transcript.format,
        model=known.name,
        conversation=chosen.name,
        conversations=tuple(_row(c) for c in transcript.conversations),
        entries=sum(message_count(c.log) for c in transcript.conversations),
        rounds=len(timeline.points),
        tool_calls=sum(call_count(c.log) for c in transcript.conversations),
        places=transcript.places,
        view_entries=sum(entry.kind in SHOWN_AS for entry in view),
        tokens=Tokens(size.used, size.source, size.estimate, size.uncertain),
        bytes=size.bytes,
        window=window
        and WindowNumbers(window.context, window.effective, window.warning, window.auto, window.blocking, _cliff(known.model)),
        state=window and _state(size.used, window),
        note=_note(known, window, timeline.compactions),
        by_kind=tables.by_kind,
        by_tool=tables.by_tool,
        by_file=tables.by_file,
        timeline=timeline.points,
        largest=tables.largest,
        compactions=timeline.compactions,
        violations=tuple(_violations(view, head, known.model, size)),
        bad_lines=tuple(BadLineRow(bad.line, bad.why) for bad in transcript.bad_lines),
        other_records=len(transcript.other),
    )
    return Inspection(report, known.unknown)


def choose(transcript: Transcript, wanted: str | None) -> Conversation:
    """The conversation of that name, id or number (from 1); the main one for None. Raises InputError where there is none."""
    if wanted is None:
        return transcript.main
    for i, conversation in enumerate(transcript.conversations, 1):
        if wanted in (str(i), conversation.name, conversation.log.head.id):
            return conversation
    names = ", ".join(f"{i} {c.name}" for i, c in enumerate(transcript.conversations[:10], 1))
    raise InputError(f"no conversation {wanted!r} in it; there are {len(transcript.conversations)}: {names}", path=transcript.path)


def message_count(log: Log) -> int:
    """How many messages of a log stand in its file: user, assistant and system ones, summaries with a line of their own
    included; what a compaction repeats, and what the harness attached, are none."""
    return sum(entry.kind in MESSAGES for entry in _recorded(log))


def call_count(log: Log) -> int:
    """How many calls of client-side tools they hold."""
    return tool_calls(_recorded(log))


def _recorded(log: Log) -> Iterator[Entry]:
    for record in log.records():
        if isinstance(record, Entry):
            yield record
        elif isinstance(record, Fold):
            yield from (entry for entry in stand_ins(record) if entry.line != record.line)


def _row(conversation: Conversation) -> ConversationRow:
    return ConversationRow(conversation.name, conversation.kind, message_count(conversation.log), call_count(conversation.log))


def _model_of(log: Log, options: Options) -> _Known:
    """The model that is asked for, else the last one that the conversation names."""
    if options.model is not None:
        return _Known(
            options.model,
            lookup(options.model, overrides=options.overrides, window=options.window, max_output=options.max_output),
            None,
            False,
        )
    name = log.head.model or next((entry.model for entry in reversed(list(log.entries())) if entry.model), None)
    window = options.window or log.head.window
    if name is None and window is None:
        return _Known(None, None, "the file names no model, so no window is known: give --model NAME or --window TOKENS", False)
    try:
        return _Known(name, lookup(name or "", overrides=options.overrides, window=window, max_output=options.max_output), None, False)
    except UnknownModelError as error:
        return _Known(name, None, str(error), True)


def _window(model: Model) -> Window:
    """A model's window. Where the prompt has a limit of its own below the window, that is what can be filled."""
    return window_of(model.prompt_limit, model.max_output)


def _cliff(model: Model | None) -> int | None:
    cliff = model.prices.cliff if model and model.prices else None
    return cliff if model and cliff and cliff < model.prompt_limit else None


def _state(used: int, window: Window) -> State:
    state = state_of(used, window)
    return State(state.percent_left, state.level, state.above_warning, state.above_error, state.above_auto, state.at_blocking)


def _family(head: Head, model: Model | None) -> Family:
    """Whose rules hold: by who serves the model, else by the wire that was recorded; Anthropic's where neither tells."""
    if model is not None and model.provider != "unknown":
        anthropic = model.provider == "anthropic" or model.id.startswith("claude")
    else:
        anthropic = head.wire in ("", "anthropic")
    if anthropic:
        return "anthropic"
    return "openai-responses" if head.wire == "openai-responses" else "other"


def _violations(view: list[Entry], head: Head, model: Model | None, size: Size) -> list[Violation]:
    """What the provider would refuse, the size of the whole first (W4, T7)."""
    found: list[Violation] = []
    if model is not None and size.used > model.prompt_limit:
        what = f"{size.used:,} tokens, the model takes {model.prompt_limit:,}"
        found.append(Violation("W4", "", None, what, "nothing: it has to be made smaller first"))
    if model is not None and model.body_limit is not None and size.bytes > model.body_limit:
        what = f"{size.bytes:,} bytes, a request may have {model.body_limit:,}"
        found.append(Violation("T7", "", None, what, "nothing: media and large results have to go first"))
    refused = violations(view, family=_family(head, model), foreign=head.wire not in ("", "anthropic"))
    return found + [Violation(*row) for row in refused]


def _note(known: _Known, window: Window | None, compactions: Sequence[CompactionRow]) -> str | None:
    """What should be known before the numbers are believed."""
    if window is None or known.note:
        return known.note
    sizes = [row.tokens_before for row in compactions if row.trigger == "auto"]
    if sizes and max(sizes) < window.auto / 2:
        smaller = f"the agent's window was smaller than {window.context:,}; --window sets it"
        return f"it was compacted automatically at {max(sizes):,} tokens: {smaller}"
    return None
