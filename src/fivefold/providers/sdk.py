"""What the models behind official SDKs share: a conversation's last request, calls and streams with and without an event loop, and
refusals as values (V1, V2).

What is asked for beside the loop's own requests (a summary, a count, the model's limits) is a generator that yields ``Sent`` and is
given what came of it, so that one body serves sync and async clients.
"""

from __future__ import annotations

import copy
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from ..calling import Call, Part, Reply
from ..core.economics import Model
from ..core.entries import Entry
from ..core.messages import JSON, Object, Text, ToolUse
from ..core.rejection import Rejection
from ..core.sources import is_main
from ..errors import UnknownModelError
from ..summarize.flow import Answer, Ask
from .models import lookup
from .overflow import classify

T = TypeVar("T")
MOST_THREADS = 256
"""Conversations beside the main one (sub-agents) of which a model remembers what it has sent."""
_NETWORK = ("httpx", "httpcore", "h11", "h2", "anyio", "ssl", "trio")
"""Packages whose errors, raised out of a stream, are those of the connection: the SDKs hand some of them on as they are."""


class Gathering(Protocol):
    """A stream's events put together to the response that they are."""

    def take(self, event: Object) -> Part | None:
        """One event more; what of it is to be shown."""

    def end(self) -> Reply | Rejection:
        """The whole response; a stream that stopped before its end is a broken one."""


class Sent(NamedTuple):
    """One call of an SDK's method. ``streamed``: its answer is a stream, else an object."""

    method: Callable[..., Any]
    arguments: dict[str, Any]
    streamed: bool = False


Doing: TypeAlias = Generator[Sent, Any, T]
"""Yields a request; is sent a ``Reply`` where it was streamed, else the object that came, or a ``Rejection``."""


class Limits(NamedTuple):
    """What a provider's models endpoint says of a model; None and empty where it does not tell (W9)."""

    window: int | None
    """Tokens of the largest prompt."""
    max_output: int | None
    edits: tuple[str, ...] = ()
    """Server-side edits that it has, as ``Model.edits`` names them."""
    compaction: tuple[str, ...] = ()
    """The provider's own compaction, as ``Model.compaction`` names it."""


@dataclass
class Thread:
    """What one conversation has sent."""

    last: Call | None = None
    memory: Any = None
    """What the provider's side remembers of it, such as where cache marks stand."""


@dataclass
class _Threads:
    known: dict[str, Thread] = field(default_factory=dict)

    def of(self, source: str) -> Thread:
        """The thread of a query source; all of the main thread's are one."""
        name = "main" if is_main(source) else source
        if name not in self.known and len(self.known) >= MOST_THREADS:
            del self.known[next(known for known in self.known if known != "main")]
        return self.known.setdefault(name, Thread())


class SDKModel(ABC):
    """A model behind an SDK. One object serves one conversation and its sub-agents: forks are sent with what stands in front of every
    request of their conversation (L1)."""

    client: Any
    model: str
    """The name under which it is asked where no request has named one yet."""
    stream: bool
    source: str = "main"

    def __init__(self, client: Any, model: str | None, stream: bool, *, is_async: bool) -> None:
        if type(client).__name__.startswith("Async") != is_async or not hasattr(client, "with_options"):
            wanted = "an async client of the SDK" if is_async else "a client of the SDK that is not async"
            raise TypeError(f"{type(self).__name__} takes {wanted}, not {type(client).__name__}")
        self.client = client.with_options(max_retries=0)  # the loop decides what is worth another try
        self.model, self.stream = model or "", stream
        self._threads = _Threads()

    def for_source(self, source: str) -> Any:
        """The same model for a sub-agent: its summaries, counts and forks are those of the conversation that this query source has."""
        other = copy.copy(self)
        other.source = source
        return other

    def _thread(self, call: Call | None = None) -> Thread:
        return self._threads.of(self.source if call is None else call.send.source)

    def _name(self, given: str = "") -> str:
        """The model to ask. Raises ValueError where nobody has named one."""
        last = self._thread().last
        name = given or (last.model if last is not None else self.model)
        if not name:
            raise ValueError(f"no model is named: give one to {type(self).__name__}(…, model=…)")
        return name

    # --- what a provider has of its own

    @abstractmethod
    def _request(self, call: Call) -> Sent: ...

    @abstractmethod
    def _gathering(self) -> Gathering: ...

    @abstractmethod
    def _whole(self, data: Object) -> Reply | Rejection: ...

    @abstractmethod
    def _refusal(self, error: Exception) -> Rejection | None:
        """What the SDK raised, as a refusal; None for an error that is none of the SDK's."""

    @abstractmethod
    def _asked(self, ask: Ask) -> Sent: ...

    @abstractmethod
    def _counting(self, entries: Sequence[Entry]) -> Doing[int | None]: ...

    @abstractmethod
    def _looking_up(self, name: str) -> Doing[Limits | None]: ...

    # --- bodies

    def _rejection(self, error: Exception) -> Rejection:
        """What went wrong, as a refusal. An error of this program's own is raised."""
        found = self._refusal(error)
        if found is not None:
            return found
        if isinstance(error, OSError | json.JSONDecodeError) or type(error).__module__.startswith(_NETWORK):
            return Rejection(why="transient", message=f"the answer broke off: {type(error).__name__}: {error}", status=200)
        raise error

    def _finished(self, answer: Any) -> Reply | Rejection:
        data = dumped(answer)
        return Rejection(why="other", message=f"the answer is no JSON: {answer!r:.200}", status=200) if data is None else self._whole(data)

    def _asking(self, ask: Ask) -> Doing[Answer | Rejection]:
        found: Reply | Rejection = yield self._asked(ask)
        return found if isinstance(found, Rejection) else answer_of(found)


class SyncModel(SDKModel):
    """For clients without an event loop."""

    def __call__(self, call: Call) -> SyncStream | Reply | Rejection:
        """Send it; a refusal is a value."""
        sent = self._request(call)
        try:
            answer = sent.method(**sent.arguments)
            if not sent.streamed:
                return self._finished(answer)
        except Exception as error:
            return self._rejection(error)
        stream = SyncStream(answer, self._gathering(), self._rejection)
        return stream if self.stream else stream.whole()

    def ask(self, ask: Ask) -> Answer | Rejection:
        """One request of a summary (L1): for ``Ports.ask``."""
        return self._run(self._asking(ask))

    def count(self, entries: Sequence[Entry]) -> int | None:
        """Tokens of a view, system prompt and tools included, as the provider counts them (T5); None where it does not tell."""
        return self._run(self._counting(entries))

    def window(self, model: str = "") -> Limits | None:
        """What the provider says of the model's limits (W9); None where it does not tell."""
        return self._run(self._looking_up(self._name(model)))

    def _run(self, work: Doing[T]) -> T:
        try:
            sent = next(work)
            while True:
                sent = work.send(self._performed(sent))
        except StopIteration as stop:
            found: T = stop.value
            return found

    def _performed(self, sent: Sent) -> Any:
        try:
            answer = sent.method(**sent.arguments)
        except Exception as error:
            return self._rejection(error)
        return SyncStream(answer, self._gathering(), self._rejection).whole() if sent.streamed else answer


class AsyncModel(SDKModel):
    """The same for async clients."""

    async def __call__(self, call: Call) -> AsyncStream | Reply | Rejection:
        """Send it; a refusal is a value."""
        sent = self._request(call)
        try:
            answer = await sent.method(**sent.arguments)
            if not sent.streamed:
                return self._finished(answer)
        except Exception as error:
            return self._rejection(error)
        stream = AsyncStream(answer, self._gathering(), self._rejection)
        return stream if self.stream else await stream.whole()

    async def ask(self, ask: Ask) -> Answer | Rejection:
        """As ``SyncModel.ask``."""
        return await self._run(self._asking(ask))

    async def count(self, entries: Sequence[Entry]) -> int | None:
        """As ``SyncModel.count``."""
        return await self._run(self._counting(entries))

    async def window(self, model: str = "") -> Limits | None:
        """As ``SyncModel.window``."""
        return await self._run(self._looking_up(self._name(model)))

    async def _run(self, work: Doing[T]) -> T:
        try:
            sent = next(work)
            while True:
                sent = work.send(await self._performed(sent))
        except StopIteration as stop:
            found: T = stop.value
            return found

    async def _performed(self, sent: Sent) -> Any:
        try:
            answer = await sent.method(**sent.arguments)
        except Exception as error:
            return self._rejection(error)
        return await AsyncStream(answer, self._gathering(), self._rejection).whole() if sent.streamed else answer


class SyncStream:
    """A reply on its way."""

    def __init__(self, events: Any, so_far: Gathering, rejection: Callable[[Exception], Rejection]) -> None:
        self._events, self._so_far, self._rejection = events, so_far, rejection

    def next(self) -> Part | Reply | Rejection:
        """The next part, or the end."""
        try:
            while True:
                part = self._so_far.take(_event(next(self._events)))
                if part is not None:
                    return part
        except StopIteration:
            self.close()
            return self._so_far.end()
        except Exception as error:
            self.close()
            return self._rejection(error)

    def whole(self) -> Reply | Rejection:
        """The end, whatever comes before it."""
        while isinstance(found := self.next(), Part):
            pass
        return found

    def close(self) -> None:
        """Close the connection; nothing where it is closed."""
        self._events.close()


class AsyncStream:
    """The same on an event loop."""

    def __init__(self, events: Any, so_far: Gathering, rejection: Callable[[Exception], Rejection]) -> None:
        self._events, self._so_far, self._rejection = events, so_far, rejection

    async def next(self) -> Part | Reply | Rejection:
        """The next part, or the end."""
        try:
            while True:
                part = self._so_far.take(_event(await self._events.__anext__()))
                if part is not None:
                    return part
        except StopAsyncIteration:
            await self.close()
            return self._so_far.end()
        except Exception as error:
            await self.close()
            return self._rejection(error)

    async def whole(self) -> Reply | Rejection:
        """The end, whatever comes before it."""
        while isinstance(found := await self.next(), Part):
            pass
        return found

    async def close(self) -> None:
        """Close the connection; nothing where it is closed."""
        await self._events.close()


def dumped(value: Any) -> Object | None:
    """One of the SDK's objects as the JSON that came: fields unknown to it included, none that was not there. None for what is none."""
    if not hasattr(value, "to_dict"):
        return None
    found: Object = value.to_dict(mode="json", warnings=False)
    return found


def _event(value: Any) -> Object:
    return dumped(value) or {}


def told_of(data: object) -> Object:
    """An error's own object in a body, or the body where there is none such."""
    body: Object = data if isinstance(data, dict) else {}
    inner = body.get("error")
    return inner if isinstance(inner, dict) else body


def refusal_of(status: int | None, text: str, name: str, details: JSON, response: Any) -> Rejection:
    """A refusal by its status and what it says (V2). ``response``: of the HTTP client, None where there is none. The request's id is
    kept at the end of the message: support asks for it."""
    headers = {} if response is None else {str(key): str(value) for key, value in response.headers.items()}
    found = classify(status, text, type=name, details=details if isinstance(details, dict) else None, headers=headers)
    id = next((headers[key] for key in ("request-id", "x-request-id") if headers.get(key)), "")
    return msgspec.structs.replace(found, message=f"{found.message} (request {id})") if id and id not in found.message else found


def words_of(status: int | None, message: object, response: Any) -> str:
    """What an error says; of an answer without a body that it has none, which is how some gateways say that a prompt is too long."""
    if isinstance(message, str) and message:
        return message
    try:
        body = "" if response is None else response.text
    except RuntimeError:  # a streamed body that was not read
        body = ""
    return body.strip() or f"{status} (no body)"


def answer_of(reply: Reply) -> Answer:
    """A reply to a summary's request."""
    return Answer(
        text="\n".join(block.text for block in reply.blocks if isinstance(block, Text)),
        called_tool=any(isinstance(block, ToolUse) for block in reply.blocks),
        stop_reason=reply.stop_reason,
        usage=reply.usage,
        model=reply.model,
    )


def known(name: str) -> Model | None:
    """What is known of a model; None where nothing is."""
    try:
        return lookup(name)
    except UnknownModelError:
        return None
