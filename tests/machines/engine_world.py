"""What stands around the engine in the machine: people, tools, a provider and whoever writes summaries, all of them dice.

Each text carries a mark (``#12#``) that no other text holds, so that the oracle sees what is lost and what is doubled. A summary tells
the marks of what it stands for, as a good one would; now and then it is empty, too long, fails, or is cut where it may not be.
"""

from __future__ import annotations

from random import Random
from typing import Any

from fivefold.core import engine
from fivefold.core.actions import CountTokens, ReadFiles, ReadMemory, RunHook, Summarize
from fivefold.core.economics import CacheRules, Model
from fivefold.core.entries import Entry, Head, HideEntries, Target, Usage
from fivefold.core.events import Counted, Event, FilesRead, HookAnswered, MemoryRead, RestoredFile, Summarized, SummaryFailed
from fivefold.core.log import Log
from fivefold.core.messages import Compaction, Image, Text, Thinking, ToolResult, ToolUse
from fivefold.core.pairing import is_speech
from fivefold.core.policy import Policy
from fivefold.core.rejection import Rejection
from fivefold.core.repair import outgoing
from fivefold.core.state import Setup, State
from fivefold.core.window import window_of
from tests.engine_oracle import MARK, Picture, Wire, cuts, flat, marks, true_tokens, words

KINDS = ("structural", "model", "memory", "bound", "native", "collapse", "server", "mixed")
"""What a run is about; the last one is each of the others in turn."""
FILLER = "a=1;b=2;c=3; " * 800
"""About 0.7 tokens a character, so that few characters fill a window."""
TOOLS = ("Read", "Bash", "Grep", "Edit", "TodoWrite", "Task", "mystery")
CLEARABLE = ("Read", "Bash", "Grep", "Edit")


def setup_of(kind: str, r: Random) -> Setup:
    """A small window under a policy, and what is there of hooks, files, memory and counters."""
    kind = r.choice(KINDS[:-1]) if kind == "mixed" else kind
    method = {"structural": "structural", "model": "model", "native": "native", "server": "structural", "collapse": "structural"}
    policy = Policy.of(
        {
            "summary": {"method": method.get(kind) or r.choice(("structural", "model"))},
            "auto": {"cooldown_seconds": r.choice((None, None, 120)), "reactive_only": r.random() < 0.1, "enabled": r.random() < 0.95},
            "micro": {"time_clear": r.random() < 0.4, "keep_results": r.choice((1, 2, 5)), "min_gain_tokens": r.choice((0, 2_000, 20_000))},
            "snip": {"superseded": r.random() < 0.8, "min_gain_tokens": r.choice((0, 5_000))},
            "collapse": {"enabled": kind == "collapse", "stretch_tokens": r.choice((1_000, 10_000)), "stage_percent": 25.0},
            "thinking": {"drop_setting": kind in ("bound", "native") and r.random() < 0.3},
            "edits": {"tools": r.choice(("off", "results", "uses")), "compaction": kind == "server"},
            "reactive": {"enabled": r.random() < 0.95, "max_recoveries": r.choice((1, 3, 3, 3))},
            "memory": {"first_tokens": 2_000, "grow_tokens": r.choice((1_000, 5_000))},
        }
    )
    window = r.choice((4_000, 6_000, 10_000, 16_000))
    model = Model(
        id="machine-1",
        provider="anthropic",
        window=window,
        max_output=r.choice((800, 2_000)),
        cache=r.choice((None, CacheRules())),
        generation=r.choice(("claude", "unknown")),
        thinking="bound" if kind in ("bound", "native") else r.choice(("none", "free")),
        edits=("clear_tool_uses", "clear_thinking") if kind == "server" else (),
        compaction=("threshold",) if kind == "server" else (),
    )
    much = kind in ("model", "memory", "collapse")
    return Setup(
        policy=policy,
        model=model,
        window=window_of(window, model.max_output, policy.window, auto=policy.auto.enabled),
        memory=kind == "memory" or (kind == "bound" and r.random() < 0.3),
        extracts=kind == "memory",
        restores=r.random() < (0.6 if much else 0.2),
        hooks=frozenset(name for name in ("pre_compact", "session_start", "post_compact") if r.random() < (0.5 if much else 0.15)),
        counts=r.random() < 0.2,
        stages=kind == "collapse",
        cached_edits=kind in ("collapse", "server"),
        overhead=r.choice((None, None, 200)),
    )


class World:
    """A conversation, and everything that can be said in it or answered to the engine."""

    def __init__(self, kind: str, r: Random) -> None:
        self.setup = setup_of(kind, r)
        self.rate, self.fixed = r.choice((0.55, 0.7, 0.9)), r.choice((0, 150, 400))
        self.size = r.choice((0.006, 0.015, 0.03)) * self.setup.window.context
        self.names = 0
        self.now = 1_000.0
        self.state: State = engine.begin(Log(Head(id="machine")), self.setup)
        self.picture = Picture()
        self.pins: dict[str, str] = {}
        self.sent: Wire = []
        """The request that was sent last."""
        self._wire: tuple[object, Wire] = (None, [])

    # --- looking

    @property
    def binds(self) -> bool:
        """Whether the model's thinking is bound to what stood before it."""
        return self.setup.model.thinking == "bound"

    @property
    def wire(self) -> Wire:
        """What would be sent now."""
        if self._wire[0] is not self.state.view:
            self._wire = self.state.view, flat(outgoing(list(self.state.view.sent())))
        return self._wire[1]

    def true(self, wire: Wire) -> int:
        """What the provider counts."""
        return true_tokens(wire, self.rate, self.fixed)

    def entries(self) -> list[Entry]:
        return list(self.state.log.entries())

    def unanswered(self) -> list[ToolUse]:
        """Calls that nothing has answered yet."""
        said = {block.tool_use_id for entry in self.entries() for block in entry.blocks if isinstance(block, ToolResult)}
        calls = (block for entry in self.entries() for block in entry.blocks if isinstance(block, ToolUse))
        return [call for call in calls if call.id not in said]

    def last_response(self) -> list[Entry]:
        """The entries of the last response, and none where a person has spoken since."""
        found: list[Entry] = []
        for entry in reversed(self.entries()):
            if entry.kind == "assistant" and (not found or entry.api_id == found[0].api_id):
                found.insert(0, entry)
            elif entry.kind == "assistant" or (is_speech(entry) and not found):
                break
        return found

    def open_calls(self) -> list[ToolUse]:
        """Those of the last response: they wait for their results."""
        ids = {block.id for entry in self.last_response() for block in entry.blocks if isinstance(block, ToolUse)}
        return [call for call in self.unanswered() if call.id in ids]

    def in_tool_loop(self) -> bool:
        """Whether the last response has calls and no person has spoken since."""
        return any(isinstance(block, ToolUse) for entry in self.last_response() for block in entry.blocks)

    def user_is_next(self) -> bool:
        """Whether the conversation ends on the assistant, or is empty."""
        shown = [entry for entry in self.state.view.entries() if entry.kind in ("user", "assistant", "attachment")]
        return not shown or shown[-1].kind == "assistant"

    # --- what is said

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def text(self, r: Random, share: float = 1.0) -> str:
        """A text with a mark of its own. ``share``: of the size that texts have in this run."""
        self.names += 1
        return f"#{self.names}# {FILLER[: int(self.size * share * r.choice((0.1, 0.5, 1, 2, 4)))]}".rstrip()

    def entry(self, kind: Any, *blocks: Any, **more: Any) -> Entry:
        return Entry(id=self.name("e"), kind=kind, blocks=blocks, time=self.now, **more)

    def image(self, r: Random) -> Image:
        """A PNG's head, of 1 x 1 or of 1024 x 768 px, and padding."""
        data = "iVBORw0KGgoAAAANSUhEUgAA" + r.choice(("AAEAAAAB", "BAAAAAMA")) + "AAAA" + "A" * r.choice((8, 400))
        return Image({"type": "base64", "media_type": "image/png", "data": data})

    def result(self, r: Random, call: ToolUse) -> ToolResult:
        text = self.text(r, r.choice((0.5, 1, 1, 6)))
        content: Any = (Text(text), self.image(r)) if r.random() < 0.08 else text
        return ToolResult(call.id, content, is_error=r.random() < 0.05)

    def response(self, r: Random, request: Wire) -> list[Entry]:
        """Thinking, words and calls, in one entry or in several, with the provider's count in most cases."""
        blocks: list[Any] = []
        if self.setup.model.thinking != "none" and r.random() < 0.7:
            blocks.append(Thinking(FILLER[: r.choice((0, 20, 100))], f"{self.name('s')}{'x' * 20}"))
        if r.random() < 0.7 or not blocks:
            blocks.append(Text(self.text(r, 0.5)))
        for _ in range(r.choice((0, 1, 1, 1, 2, 3))):
            asked = {"file_path": f"src/part{r.randint(1, 3)}.py", "description": self.text(r, 0.1)}
            blocks.append(ToolUse(self.name("toolu_"), r.choice(TOOLS), asked))
        if isinstance(blocks[-1], Thinking):
            blocks.append(Text(self.text(r, 0.2)))
        if self.setup.policy.edits.compaction and r.random() < 0.08:
            blocks.insert(0, Compaction({"type": "compaction", "content": "what the provider keeps"}))
        usage = Usage(input=self.true(request), output=self.true([("", str(block)) for block in blocks])) if r.random() < 0.7 else None
        api = self.name("api")
        parts = [blocks] if r.random() < 0.5 else [[block] for block in blocks]
        return [self.entry("assistant", *part, api_id=api, usage=usage) for part in parts]

    def rejection(self, r: Random) -> Rejection:
        """A refusal of what was sent, of any kind, with numbers or without."""
        true, size = self.true(self.sent), sum(len(block) for _, block in self.sent)
        why: Any = r.choice(("too_long", "too_long", "too_long", "output_too_large", "bytes", "media", "transient", "other"))
        limit = r.choice((self.setup.window.context, int(true * r.uniform(0.4, 0.99)) + 1))
        numbers: dict[str, Any] = {
            "too_long": {"actual": max(limit + 1, true), "limit": limit},
            "output_too_large": {"actual": max(1, limit - r.choice((100, 1_500))), "limit": limit, "max_tokens": r.choice((None, 600))},
            "bytes": {"actual": size, "limit": int(size * r.uniform(0.5, 0.95))},
            "media": r.choice(({"max_side": 500}, {"places": ((r.randint(0, 4), r.randint(0, 2)),)}, {})),
        }
        return Rejection(why=why, message=f"refused: {why}", **(numbers.get(why, {}) if r.random() < 0.6 else {}))

    # --- what is answered

    def answer(self, r: Random, action: Any) -> Event:
        match action:
            case RunHook(name=name):
                return HookAnswered(
                    name=name,
                    instructions=("and the ports",) if r.random() < 0.3 else (),
                    veto="not now" if name == "pre_compact" and r.random() < 0.15 else "",
                    context=tuple(f"hook text {self.name('h')} {FILLER[: r.choice((0, 100, 1_000))]}" for _ in range(r.randint(0, 2))),
                    failed=("a hook threw",) if r.random() < 0.2 else (),
                )
            case ReadMemory():
                return MemoryRead(text=r.choice((None, "memory", "memory")), running=r.random() < 0.1)
            case ReadFiles(paths=paths):
                found = [RestoredFile(path, FILLER[: r.choice((20, 600, 3_000))]) for path in paths if r.random() < 0.8]
                skills = tuple(FILLER[: r.choice((30, 1_400))] for _ in range(r.randint(0, 1)))
                return FilesRead(files=tuple(found), attachments=skills, skipped=("gone.py: missing",))
            case CountTokens():
                return Counted(tokens=r.choice((None, self.true(self.wire))))
            case Summarize():
                return self.summary(r, action)
        raise AssertionError(f"nothing answers {action!r}")

    def summary(self, r: Random, action: Summarize) -> Event:
        """A summary that tells the marks of its span and what is pinned in it, of any length; or none, or an empty one."""
        luck, calls = r.random(), int(action.method == "model")
        chosen = action.first is None or action.last is None
        span = self.own_span(r, action) if chosen else (action.first, action.last)
        if luck < 0.12 or span is None or span[0] is None or span[1] is None:
            return SummaryFailed(why="no summary came", calls=calls)
        low, high = self.state.log.position(span[0]), self.state.log.position(span[1])
        told = self.told_by_log(low, high) if chosen else self.told_by_view(low, high)
        pinned = [text for text in self.pins.values() if set(MARK.findall(text)).issubset(told)]
        told = [mark for mark in dict.fromkeys(told) if all(mark not in text for text in pinned)]
        filler = FILLER[: int(self.setup.window.auto * r.choice((0, 0, 0.1, 0.3, 0.6, 2)) * action.pressure)]
        text = "" if luck < 0.16 else "\n".join(["summary", " ".join(told), *pinned, filler]).rstrip()
        block: Any = {"type": "compaction", "content": text} if action.method == "native" and text else {}
        return Summarized(
            text=r.choice(("", "what people said")) if block else text,
            method=action.method,
            first=span[0] if chosen else None,
            last=span[1] if chosen else None,
            middle=self.middle(r, high) if action.method == "structural" and r.random() < 0.3 else (),
            calls=calls,
            usage=Usage(input=100, output=50) if calls else None,
            block=block,
        )

    def told_by_view(self, low: int, high: int) -> list[str]:
        """The marks of a stretch as it is shown."""
        return marks((item.entry.id, list(item.entry.blocks)) for item in self.state.view.shown() if low <= item.position <= high)

    def told_by_log(self, low: int, high: int) -> list[str]:
        """The marks of a stretch of the log, made anew from what was said; what was snipped is not told again."""
        folds = [placed.fold for placed in self.state.log.folds if placed.fold.level == "snip"]
        ids = {id for fold in folds for change in fold.changes if isinstance(change, HideEntries) for id in change.ids}
        snipped = {mark for entry in self.entries() if entry.id in ids for mark in MARK.findall(words(entry.blocks))}
        gone = snipped - set(marks(self.picture.shown))
        return [mark for entry in self.entries()[low : high + 1] for mark in MARK.findall(words(entry.blocks)) if mark not in gone]

    def own_span(self, r: Random, action: Summarize) -> tuple[str, str] | None:
        """Where a structural summariser would cut, made anew from the whole log; now and then where it may not."""
        said = self.entries()
        first = next((i for i, entry in enumerate(said) if entry.kind not in ("system", "note")), None)
        if first is None:
            return None
        least = first if action.not_before is None else self.state.log.position(action.not_before)
        spoken = max((i for i, entry in enumerate(said, 1) if entry.kind == "assistant"), default=0)
        legal = [count for count in cuts(said) if max(first, least) < count <= max(spoken, least + 1)]
        if r.random() < 0.1 or not legal:
            return said[first].id, said[r.randint(first, len(said) - 1)].id
        if r.random() < 0.7 and action.keep_tail:
            legal = legal[: max(1, len(legal) - r.randint(0, 6))]
        return said[first].id, said[r.choice(legal[-3:]) - 1].id

    def middle(self, r: Random, high: int) -> tuple[tuple[Target, str], ...]:
        """Results behind the span that shrink (L14)."""
        found = [
            Target(item.entry.id, i)
            for item in self.state.view.shown()
            if item.position > high and item.side == 0 and not item.edits.texts
            for i, block in enumerate(item.original.blocks)
            if isinstance(block, ToolResult)
        ]
        return tuple((target, "picked lines") for target in r.sample(found, min(2, len(found))))
