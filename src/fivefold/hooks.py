"""Hooks: functions and commands of whoever embeds fivefold, run around a compaction (P2, C5, R5).

A hook is told a payload and may answer. A Python function is called with the payload and returns; a command reads it as JSON
from standard input and prints. What can be answered:

- nothing: None, or no output;
- a text: context to be put back behind the compaction (C5);
- an object: ``additional_context`` (text), ``instructions`` for the summary (text; the engine takes those of ``pre_compact``), ``veto`` or
  ``block`` (the reason, or true; of ``pre_compact``, and of ``stop``, which sends the agent back to work). Claude Code's
  spelling is understood as well: ``decision: "block"`` with ``reason``, and ``hookSpecificOutput.additionalContext``, so that a hook
  written for it does here what it does there.

A command that ends with 2 says no, its reason on standard error; any other code but 0 is a failure. Whatever goes wrong is told as
a text and is never an error here: a hook can delay a compaction by its time, and it can't lose the conversation.
"""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Literal, NamedTuple, Protocol, TypeAlias, get_args

import msgspec

from .core.events import HookAnswered
from .core.messages import Object
from .errors import PolicyError

HookName: TypeAlias = Literal["pre_compact", "session_start", "post_compact", "stop", "stop_failure"]
Command: TypeAlias = str | Sequence[str]
"""One string is run by the shell, a list of arguments without one."""
Function: TypeAlias = Callable[[dict[str, Any]], Mapping[str, object] | str | None]
Hook: TypeAlias = Function | Command

NAMES: tuple[HookName, ...] = get_args(HookName)
MOST_CHARS = 200_000
"""So much of what a hook says is kept (H4); what of it is put back has a much smaller budget in the policy."""
MOST_FAILURE_CHARS = 500
GRACE_SECONDS = 0.5
"""How long the output of a command that has ended is waited for: what it left running may hold the pipe open."""
PIPE_TAKES = 4096
"""Bytes that an empty pipe takes at once on every system."""
NO_REASON = "a hook said no and gave no reason"
VETO_CODE = 2
_MAY_REFUSE = ("pre_compact", "stop")

_CONTEXT = ("additional_context", "additionalContext")
_VETO = ("veto", "block")
_UNDERSTOOD = frozenset({*_CONTEXT, *_VETO, "instructions", "decision", "reason", "hookSpecificOutput", "hookEventName"})
_CLAUDE_ONLY = frozenset(
    {
        "continue",
        "initialUserMessage",
        "reloadSkills",
        "sessionTitle",
        "stopReason",
        "suppressOutput",
        "systemMessage",
        "watchPaths",
    }
)
"""Keys that say something to Claude Code's own screen and loop; there is nothing here that they could change."""


class _Answer(NamedTuple):
    """What one hook said. ``failed``: what went wrong with it, without its name."""

    context: str = ""
    instructions: str = ""
    veto: str = ""
    failed: tuple[str, ...] = ()


class _Asked(Protocol):
    """A hook that has begun."""

    def wait(self, seconds: float) -> _Answer:
        """Its answer; once the time is over, that there is none."""


class Hooks:
    """The hooks of one program, by name and in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: dict[str, tuple[Hook, ...]] = {}

    def add(self, name: HookName, hook: Hook) -> None:
        """One more hook of a name. Raises PolicyError for a name that is none of ``NAMES``, and for what can't be run."""
        if name not in NAMES:
            raise PolicyError(f"there is no hook {name!r}; there are {', '.join(NAMES)}")
        self._hooks[name] = (*self._hooks.get(name, ()), _checked(name, hook))

    def names(self) -> frozenset[str]:
        """The names that somebody listens on: ``Setup.hooks``."""
        return frozenset(self._hooks)

    def run(self, name: str, payload: Object, seconds: float) -> HookAnswered:
        """Run all hooks of a name, one after the other, each for at most ``seconds``, and put together what they say. Never raises
        for what a hook does. A command that is too slow is killed with all its processes; a function that is too slow can't be, it
        runs on in a thread that keeps nobody waiting, and what it returns then is dropped."""
        hooks, told = self._hooks.get(name, ()), _told(name, payload)
        return _together(name, hooks, [_begin(hook, told)(seconds) for hook in hooks])

    def start(self, name: str, payload: Object, seconds: float = 30.0, *, tell: Callable[[HookAnswered], object] | None = None) -> None:
        """Start all hooks of a name, together, and wait for none (R5). A command that was started outlives this process; its output
        is not heard. ``tell``: called from a thread, with what went wrong, when all have ended or their time is over."""
        hooks, told = self._hooks.get(name, ()), _told(name, payload)
        waits = [_begin(hook, told, heard=False) for hook in hooks]

        def watch() -> None:
            answered = _together(name, hooks, [wait(seconds) for wait in waits])
            if tell is not None:
                tell(answered)

        if waits:
            threading.Thread(target=watch, name="fivefold-hooks", daemon=True).start()


def _checked(name: str, hook: Hook) -> Hook:
    """The hook as it is kept. Raises PolicyError."""
    if callable(hook):
        if inspect.iscoroutinefunction(hook):
            raise PolicyError(f"the {name} hook is a coroutine function; give one that returns its answer")
        return hook
    if isinstance(hook, str):
        if not hook.strip():
            raise PolicyError(f"the {name} hook is an empty command")
        return hook
    if not isinstance(hook, Sequence) or not hook or not all(isinstance(part, str) for part in hook) or not hook[0].strip():
        raise PolicyError(f"the {name} hook is neither a function, nor a command as text or list of texts")
    return tuple(hook)


def _told(name: str, payload: Object) -> str:
    """The payload as JSON. ASCII, so that half a surrogate pair in it breaks no command; the name as Claude Code spells it."""
    return json.dumps({"hook_event_name": name.title().replace("_", ""), **payload})


def _label(number: int, hook: Hook) -> str:
    """What to call a hook in a failure: a whole command line may hold a secret, its program does not."""
    if callable(hook):
        return f"hook {number} ({getattr(hook, '__name__', type(hook).__name__)})"
    program = hook.split()[0] if isinstance(hook, str) else hook[0]
    return f"hook {number} ({program[:100]})"


def _together(name: str, hooks: Sequence[Hook], answers: Sequence[_Answer]) -> HookAnswered:
    """What all hooks of a name said. A veto counts before something: afterwards there is nothing to refuse."""
    said = [(_label(number, hook), answer) for number, (hook, answer) in enumerate(zip(hooks, answers, strict=True), 1)]
    failed = [f"{label}: {why}" for label, answer in said for why in answer.failed]
    vetoes = [(label, answer.veto) for label, answer in said if answer.veto]
    if name not in _MAY_REFUSE:
        failed += [
            f"{label}: it says no, which only a {' or a '.join(_MAY_REFUSE)} hook can: {why[:MOST_FAILURE_CHARS]}" for label, why in vetoes
        ]
        vetoes = []
    return HookAnswered(
        name=name,
        instructions=tuple(answer.instructions for answer in answers if answer.instructions),
        veto="; ".join(why for _, why in vetoes),
        context=tuple(answer.context for answer in answers if answer.context),
        failed=tuple(failed),
    )


# --- running one


def _begin(hook: Hook, told: str, *, heard: bool = True) -> Callable[[float], _Answer]:
    """Set a hook going. The function that is returned waits for its answer, for at most so many seconds."""
    try:
        asked: _Asked = _Called(hook, told) if callable(hook) else _Running(hook, told.encode(), heard)
        return asked.wait
    except (OSError, ValueError, RuntimeError) as error:  # no such program, a NUL in an argument, no more threads
        failure = _Answer(failed=(f"it can't be started: {_cut(str(error))}",))
        return lambda seconds: failure


class _Called:
    """A function, called in a thread of its own with a copy of the payload that it may change."""

    def __init__(self, hook: Function, told: str) -> None:
        self._answer: _Answer | None = None
        self._thread = threading.Thread(target=self._call, args=(hook, told), name="fivefold-hook", daemon=True)
        self._thread.start()

    def _call(self, hook: Function, told: str) -> None:
        try:
            self._answer = _understood(hook(json.loads(told)))
        except BaseException as error:  # it may raise anything: in this thread sys.exit() and Ctrl-C are the hook's own
            why = "".join(traceback.format_exception_only(error)).strip()
            self._answer = _Answer(failed=(f"it raised {_cut(why)}",))

    def wait(self, seconds: float) -> _Answer:
        self._thread.join(max(0.0, seconds))
        return self._answer or _Answer(failed=(f"it has not answered within {seconds:g} s",))


class _Running:
    """A command, in a process group of its own so that all of it can be killed. Raises OSError, ValueError or RuntimeError where it
    can't be started."""

    def __init__(self, command: Command, payload: bytes, heard: bool) -> None:
        to = subprocess.PIPE if heard else subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, shell=isinstance(command, str), stdin=subprocess.PIPE, stdout=to, stderr=to, start_new_session=True
        )
        try:
            self._heard = [_Heard(pipe) for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]
            _feed(self._process.stdin, payload)
        except BaseException:
            self._kill()
            raise

    def wait(self, seconds: float) -> _Answer:
        try:
            code = self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return _Answer(failed=(f"it has not ended within {seconds:g} s and was killed",))
        finally:
            if self._process.returncode is None:
                self._kill()
        out, err = [heard.text() for heard in self._heard] or ("", "")
        if code == VETO_CODE:
            return _Answer(veto=_bounded(err or out)[0] or NO_REASON)
        if code:
            ended = f"it ended with code {code}" if code > 0 else f"it was ended by signal {-code}"
            return _Answer(failed=(f"{ended}: {err[-MOST_FAILURE_CHARS:]}" if err else ended,))
        return _printed(out)

    def _kill(self) -> None:
        """End the whole group."""
        if sys.platform == "win32":
            self._process.kill()
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE_SECONDS)


class _Heard:
    """What comes out of a pipe, read by a thread. Beyond the bound it is read and dropped, so that no command is stopped by having
    said too much, and none fills the memory."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._listen, args=(pipe,), name="fivefold-hook-output", daemon=True)
        self._thread.start()

    def _listen(self, pipe: IO[bytes]) -> None:
        with pipe:
            while piece := os.read(pipe.fileno(), 65_536):
                if (room := 4 * MOST_CHARS + 4 - len(self._kept)) > 0:
                    self._kept += piece[:room]

    def text(self) -> str:
        """What was said until the command ended, a little over ``MOST_CHARS`` where there was more."""
        self._thread.join(GRACE_SECONDS)
        return bytes(self._kept).decode("utf-8", "replace").strip()[: MOST_CHARS + 1]


def _feed(pipe: IO[bytes] | None, payload: bytes) -> None:
    """Write the payload; a long one in a thread, for a command that does not read it."""
    assert pipe is not None
    if len(payload) <= PIPE_TAKES:
        _write(pipe, payload)
    else:
        threading.Thread(target=_write, args=(pipe, payload), name="fivefold-hook-input", daemon=True).start()


def _write(pipe: IO[bytes], payload: bytes) -> None:
    with suppress(OSError), pipe:  # it may end without having read
        pipe.write(payload)


# --- understanding what it said


def _printed(text: str) -> _Answer:
    """What a command printed: an object, a JSON string or null mean what they mean; all else is a text."""
    try:
        value = msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError) as error:
        if not text.startswith("{"):
            return _understood(text)
        what = f"more than {MOST_CHARS:,} characters" if len(text) > MOST_CHARS else _cut(str(error))
        return _Answer(failed=(f"its output begins like a JSON object and can't be read: {what}",))
    return _understood(value if isinstance(value, dict | str | None) else text)


def _understood(said: object) -> _Answer:
    """An answer from what a function returned or a command printed."""
    if said is None:
        return _Answer()
    if isinstance(said, str):
        text, failed = _bounded(said)
        return _Answer(context=text, failed=failed)
    if not isinstance(said, Mapping):
        return _Answer(failed=(f"it returned {_a(said)}, not a dict, a text or None",))
    inner = said.get("hookSpecificOutput")
    fields = {**said, **inner} if isinstance(inner, Mapping) else dict(said)
    notes: list[str] = []
    unknown = sorted(str(key)[:50] for key in fields if key not in _UNDERSTOOD | _CLAUDE_ONLY)
    if unknown:
        notes.append(f"it said {', '.join(unknown[:5])}, which means nothing here")
    context, instructions, veto = _text(fields, _CONTEXT, notes), _text(fields, ("instructions",), notes), _text(fields, _VETO, notes)
    if fields.get("decision") == "block":
        veto = veto or _text(fields, ("reason",), notes) or NO_REASON
    return _Answer(context, instructions, veto, tuple(notes))


def _text(fields: Mapping[str, object], keys: tuple[str, ...], notes: list[str]) -> str:
    """The text under the first of some keys that has one; what is no text is noted."""
    for key in keys:
        value = fields.get(key)
        if value is True and keys is _VETO:
            return NO_REASON
        if isinstance(value, str):
            text, failed = _bounded(value)
            notes += failed
            if text:
                return text
        elif value is not None and value is not False:
            notes.append(f"its {key} is {_a(value)}, not a text")
    return ""


def _bounded(text: str) -> tuple[str, tuple[str, ...]]:
    """A text within the bound and without half surrogate pairs, which nothing can store or send; and a note where it was cut."""
    failed = (f"it said more than {MOST_CHARS:,} characters; the rest is left out",) if len(text) > MOST_CHARS else ()
    text = text[:MOST_CHARS]
    if not text.isascii():
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return (text if text.strip() else ""), failed


def _cut(text: str) -> str:
    return text if len(text) <= MOST_FAILURE_CHARS else text[:MOST_FAILURE_CHARS] + "…"


def _a(value: object) -> str:
    """What kind of value it is, in words."""
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"
