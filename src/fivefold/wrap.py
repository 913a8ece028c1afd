"""An official SDK's client under fivefold (V4): the same methods, the same types, streaming too; one line of a program changes.

    client = wrap(anthropic.Anthropic())

Requests for messages go through here: the history that comes with each is known by its prefix (``histories``), what is due is done,
what a provider refuses for its size or its media is made again smaller, before the program sees an error. All other requests, and
histories that cannot be read, go through as they are. The client that was given is left as it was.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from .core.entries import Head, Usage
from .core.log import Log
from .core.messages import JSON, Object, decode_content, encode_block
from .core.policy import Policy
from .core.rejection import Rejection
from .core.state import Phase
from .drive import Driver
from .driving import Outgoing
from .errors import CompactionError, RejectedError
from .formats.common import anthropic_usage, openai_usage
from .formats.write_openai import chat_messages
from .histories import Answered, Histories, History, Wire, changed, messages_of
from .perform import Ports
from .ports import Listener
from .providers.overflow import classify
from .setup import make_setup

C = TypeVar("C")
_PATHS: dict[str, Wire] = {
    "/v1/messages": "anthropic",
    "/v1/messages?beta=true": "anthropic",
    "/chat/completions": "openai-chat",
}
_HELD = frozenset({"message_start", "ping"})
"""Events in front of the first one that shows anything: until then an error can still be made good."""


def wrap(
    client: C,
    *,
    window: int | None = None,
    policy: Policy | None = None,
    ports: Ports | None = None,
    listen: Listener | None = None,
) -> C:
    """A copy of the client whose conversations never outgrow their window. ``client``: an ``Anthropic``, ``AsyncAnthropic``, ``OpenAI`` or
    ``AsyncOpenAI`` (Chat Completions). ``window``: tokens, for models of which it is not known; ``ports``: as for a driver, no memory;
    ``listen``: hears every event.

    Raises TypeError for another kind of client.
    """
    copied: Any = client.copy()  # type: ignore[attr-defined]
    kind = type(client).__module__.partition(".")[0]
    known = _Known(window, policy, ports, listen)
    if kind == "anthropic":
        resources = [copied.messages, copied.beta.messages]
    elif kind == "openai":
        resources = [copied.chat.completions]
    else:
        raise TypeError(f"wrap() takes a client of the anthropic or the openai package, not {type(client).__name__}")
    is_async = type(client).__name__.startswith("Async")
    for resource in resources:
        resource._post = _AsyncPost(resource._post, known) if is_async else _Post(resource._post, known)
    found: C = copied
    return found


class _Known:
    """The conversations of a client, by wire and model."""

    def __init__(self, window: int | None, policy: Policy | None, ports: Ports | None, listen: Listener | None) -> None:
        self.window, self.policy, self.ports, self.listen = window, policy, ports, listen
        self._histories: dict[tuple[Wire, str], Histories[Driver]] = {}
        self.lock = threading.RLock()

    def histories(self, wire: Wire, model: str) -> Histories[Driver]:
        found = self._histories.get((wire, model))
        if found is None:
            setup = make_setup(model, window=self.window, policy=self.policy, head=Head(wire="" if wire == "anthropic" else wire))
            ports = self.ports or Ports()

            def begin(log: Log) -> Driver:
                return Driver(log, setup=setup, ports=ports, listen=self.listen)

            found = self._histories[wire, model] = Histories(begin, wire=wire)
        return found

    def begin(self, path: str, body: Mapping[str, Any]) -> _Turn | None:
        """A request taken in; None where it is none of ours, or its history cannot be read."""
        wire = _PATHS.get(path)
        if wire is None or not isinstance(body.get("messages"), list | tuple) or not isinstance(body.get("model"), str):
            return None
        try:
            messages: list[JSON] = msgspec.to_builtins(list(body["messages"]), enc_hook=_dumped)
            return _Turn(self, wire, body, messages)
        except (ValueError, TypeError, CompactionError):
            return None


class _Turn:
    """One request, until it is answered."""

    def __init__(self, known: _Known, wire: Wire, body: Mapping[str, Any], messages: list[JSON]) -> None:
        self.known, self.wire, self.body = known, wire, body
        system = body.get("system")
        system = msgspec.to_builtins(list(system), enc_hook=_dumped) if isinstance(system, list | tuple) else system
        blocks = decode_content(system)[0] if isinstance(system, str | list) else ()
        tools = body.get("tools")
        listed: list[Object] = msgspec.to_builtins(list(tools), enc_hook=_dumped) if isinstance(tools, list | tuple) else []
        head = Head(system=blocks, tools=tuple(listed), wire="" if wire == "anthropic" else wire)
        marks = "cache_control" in str(system) or isinstance(body.get("cache_control"), dict)
        with known.lock:
            self.history: History[Driver] = known.histories(wire, body["model"]).find(messages, head, marks=marks)
            self.driver = self.history.driver
            limit = body.get("max_tokens")
            self.out: Outgoing = self.driver.before_request(max_tokens=limit if isinstance(limit, int) else None)
        self.system = system

    def request(self) -> dict[str, Any]:
        """The body to send: the client's own where nothing has to be changed."""
        if not changed(self.out) and not self.out.send.transition:
            return dict(self.body)
        made: dict[str, Any] = dict(self.body)
        if self.wire == "openai-chat":
            made["messages"] = chat_messages(self.out.request, own=True)
        else:
            made["messages"] = messages_of(self.history, self.out)
            if self.out.request.system:
                own = [{"type": "text", "text": self.system}] if isinstance(self.system, str) else list(self.system or ())
                made["system"] = [*own, *map(encode_block, self.out.request.system)]
        if self.out.send.max_tokens is not None and isinstance(made.get("max_tokens"), int):
            made["max_tokens"] = self.out.send.max_tokens
        return made

    def again(self, error: Exception) -> bool:
        """Whether there is another request to make instead of the one that this error refused (R2)."""
        rejection = _rejection(error)
        with self.known.lock:
            if rejection is None or rejection.why in ("transient", "other"):
                self.driver.cancel()
                return False
            try:
                self.out = self.driver.rejected(rejection)
            except RejectedError:
                return False
        return True

    def answered(self, usage: JSON, id: JSON = None, model: JSON = None) -> None:
        """What a response told of itself."""
        read: Usage | None = anthropic_usage(usage) if self.wire == "anthropic" else openai_usage(usage)
        self.history.answered = Answered(read, id if isinstance(id, str) else None, model if isinstance(model, str) else None)

    def heard(self, response: Any) -> Any:
        """A whole response, looked at and handed on."""
        usage = getattr(response, "usage", None)
        if usage is not None and hasattr(usage, "model_dump"):
            self.answered(usage.model_dump(mode="json", warnings=False), getattr(response, "id", None), getattr(response, "model", None))
        return response

    def abandoned(self) -> None:
        """Nobody waits for the answer any more."""
        with self.known.lock:
            if self.driver.state.phase is Phase.SENT and self.history.answered is None:
                self.driver.cancel()


class _Heard:
    """What a stream's events tell of the response."""

    def __init__(self, turn: _Turn) -> None:
        self.turn = turn
        self.usage: Object = {}
        self.id: JSON = None

    def take(self, event: Any) -> None:
        data: Object = event.model_dump(mode="json", exclude_unset=True, warnings=False) if _matters(event) else {}
        message = data.get("message")
        told: Object = message if isinstance(message, dict) else data
        if isinstance(told.get("id"), str):
            self.id = told["id"]
        usage = told.get("usage")
        if isinstance(usage, dict):
            self.usage |= {key: value for key, value in usage.items() if value is not None}
            self.turn.answered(self.usage, self.id)


def _matters(event: Any) -> bool:
    return getattr(event, "type", None) in ("message_start", "message_delta") or getattr(event, "usage", None) is not None


class _Post:
    """In the place of a resource's ``post``."""

    def __init__(self, post: Callable[..., Any], known: _Known) -> None:
        self.post, self.known = post, known

    def __call__(self, path: str, *, body: Any = None, **more: Any) -> Any:
        turn = self.known.begin(path, body) if isinstance(body, Mapping) else None
        if turn is None:
            return self.post(path, body=body, **more)
        response = self._sent(turn, path, more)
        iterator = getattr(response, "_iterator", None) if more.get("stream") else None
        if iterator is not None:
            response._iterator = self._watched(turn, iterator, path, more)
            return response
        return turn.heard(response)

    def _sent(self, turn: _Turn, path: str, more: Mapping[str, Any]) -> Any:
        while True:
            try:
                return self.post(path, body=turn.request(), **more)
            except Exception as error:
                if not turn.again(error):
                    raise

    def _watched(self, turn: _Turn, events: Any, path: str, more: Mapping[str, Any]) -> Iterator[Any]:
        heard, held, shown = _Heard(turn), list[Any](), False
        while True:
            try:
                for event in events:
                    heard.take(event)
                    shown = shown or getattr(event, "type", "chunk") not in _HELD
                    held.append(event)
                    while shown and held:
                        yield held.pop(0)
                yield from held
                return
            except Exception as error:
                if shown or not turn.again(error):
                    raise
                held, events = [], self._sent(turn, path, more)._iterator


class _AsyncPost:
    """The same for an async client."""

    def __init__(self, post: Callable[..., Any], known: _Known) -> None:
        self.post, self.known = post, known

    async def __call__(self, path: str, *, body: Any = None, **more: Any) -> Any:
        turn = self.known.begin(path, body) if isinstance(body, Mapping) else None
        if turn is None:
            return await self.post(path, body=body, **more)
        try:
            response = await self._sent(turn, path, more)
        except BaseException:
            turn.abandoned()
            raise
        iterator = getattr(response, "_iterator", None) if more.get("stream") else None
        if iterator is not None:
            response._iterator = self._watched(turn, iterator, path, more)
            return response
        return turn.heard(response)

    async def _sent(self, turn: _Turn, path: str, more: Mapping[str, Any]) -> Any:
        while True:
            try:
                return await self.post(path, body=turn.request(), **more)
            except Exception as error:
                if not turn.again(error):
                    raise

    async def _watched(self, turn: _Turn, events: Any, path: str, more: Mapping[str, Any]) -> AsyncIterator[Any]:
        heard, held, shown = _Heard(turn), list[Any](), False
        while True:
            try:
                async for event in events:
                    heard.take(event)
                    shown = shown or getattr(event, "type", "chunk") not in _HELD
                    held.append(event)
                    while shown and held:
                        yield held.pop(0)
                for event in held:
                    yield event
                return
            except Exception as error:
                if shown or not turn.again(error):
                    raise
                held, events = [], (await self._sent(turn, path, more))._iterator


def _dumped(value: Any) -> Any:
    """One of the SDK's own objects as JSON; a program may send back a response's content as it got it."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_unset=True, warnings=False)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _rejection(error: Exception) -> Rejection | None:
    """What an SDK raised, as a refusal; None where no answer came at all."""
    status, body = getattr(error, "status_code", None), getattr(error, "body", None)
    if not isinstance(status, int):
        return None
    told = body.get("error", body) if isinstance(body, dict) else {}
    told = told if isinstance(told, dict) else {}
    name = told.get("type") if "anthropic" in type(error).__module__ else told.get("code") or told.get("type")
    response = getattr(error, "response", None)
    headers = dict(response.headers) if response is not None else {}
    message = told.get("message")
    return classify(
        status,
        message if isinstance(message, str) else str(error),
        type=name if isinstance(name, str) else "",
        details=told,
        headers=headers,
    )
