"""Which endpoint answers what, around it the faults, the journal and the errors of each API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .accounts import Journal, Record
from .chat_api import ChatApi, chat_events
from .engine import Engine
from .faults import Fault, Faults, refusal_for
from .messages_api import MessagesApi
from .models_api import get_model, list_models, openai_models
from .openai_common import PrefixCache
from .refusal import Object, Refused, anthropic_body, invalid, openai_body
from .response_events import response_events
from .responses_api import ResponsesApi
from .sse import bare_event, event, message_events
from .wire import Transports, cut, event_stream, json_response, read_body
from .world import World

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_OPENAI = ("chat", "responses", "input_tokens", "compact")


class Routes:
    """The endpoints of one simulator."""

    def __init__(self, world: World, journal: Journal, engine: Engine, faults: Faults, transports: Transports) -> None:
        self._world = world
        self._journal = journal
        self._faults = faults
        self._transports = transports
        self._engine = engine
        shared = PrefixCache(world.clock)
        self._messages = MessagesApi(world, engine)
        self._chat = ChatApi(world, engine, shared)
        self._responses = ResponsesApi(world, engine, shared)

    def app(self) -> Starlette:
        """The ASGI application."""
        return Starlette(
            routes=[
                Route("/v1/messages", partial(self._spoken, "messages"), methods=["POST"]),
                Route("/v1/messages/count_tokens", partial(self._plain, "count_tokens"), methods=["POST"]),
                Route("/v1/chat/completions", partial(self._spoken, "chat"), methods=["POST"]),
                Route("/v1/responses", partial(self._spoken, "responses"), methods=["POST"]),
                Route("/v1/responses/compact", partial(self._spoken, "compact"), methods=["POST"]),
                Route("/v1/responses/input_tokens", partial(self._plain, "input_tokens"), methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._model),
            ],
            exception_handlers={404: self._unknown},
        )

    # --- endpoints that ask a model

    async def _spoken(self, api: str, request: Request) -> Response:
        record = self._journal.begin(self._world.clock(), api)
        headers = {"x-request-id" if api in _OPENAI else "request-id": self._world.next_id("req")}
        try:
            data = await read_body(request)
            streamed = _wants_stream(data)
            record.streamed = streamed
            fault = self._faults.next()
            record.fault = None if fault is None else fault.kind
            if fault is not None:
                if fault.kind == "slow":
                    await asyncio.sleep(fault.seconds)
                if fault.kind == "reset" or (fault.kind == "broken_stream" and not streamed):
                    return await cut(request, self._transports, at_once=True)
                refused = refusal_for(fault, openai=api in _OPENAI, streamed=streamed)
                if refused is not None:
                    raise refused
            answer = await self._answer(api, record, request, data, refuse=fault is not None and fault.kind == "refusal")
        except Refused as refused:
            return self._refuse(api, record, refused, headers)
        record.status = 200
        if not streamed:
            return json_response(answer, 200, headers)
        return self._stream(record, request, _events(api, answer, data), headers, fault)

    async def _answer(self, api: str, record: Record, request: Request, data: bytes, *, refuse: bool) -> Object:
        try:
            match api:
                case "chat":
                    return await self._chat.create(record, request.headers, data, refuse=refuse)
                case "responses":
                    return await self._responses.create(record, request.headers, data, refuse=refuse)
                case "compact":
                    return await self._responses.compact(record, request.headers, data, refuse=refuse)
            return await self._messages.create(record, request.headers, data, refuse=refuse)
        except _UNREADABLE as error:
            raise invalid(f"The request body is not valid JSON: {error}") from error
        except Exception as error:
            raise error if isinstance(error, Refused) else self._engine.broken(error) from error

    def _stream(self, record: Record, request: Request, events: Iterator[bytes], headers: dict[str, str], fault: Fault | None) -> Response:
        def done(to_the_end: bool) -> None:
            record.whole = to_the_end

        stop_after = None
        if fault is not None and fault.kind in ("broken_stream", "error_event"):
            whole = list(events)
            stop_after, events = min(fault.events, len(whole) - 1), iter(whole)
        instead = _error_event(record.api) if fault is not None and fault.kind == "error_event" else None
        cutting = partial(cut, request, self._transports, at_once=False)
        return event_stream(events, headers, done=done, stop_after=stop_after, instead=instead, cutting=cutting)

    # --- endpoints that do not

    async def _plain(self, api: str, request: Request) -> Response:
        record = self._journal.begin(self._world.clock(), api)
        headers = {"x-request-id" if api in _OPENAI else "request-id": self._world.next_id("req")}
        try:
            data = await read_body(request)
            counted = self._messages.count if api == "count_tokens" else self._responses.count
            record.answer = counted(record, request.headers, data)
        except _UNREADABLE as error:
            refused = invalid(f"The request body is not valid JSON: {error}")
            return self._refuse(api, record, refused, headers)
        except Refused as refused:
            return self._refuse(api, record, refused, headers)
        record.status = 200
        return json_response(record.answer, 200, headers)

    async def _models(self, request: Request) -> Response:
        openai = "anthropic-version" not in request.headers
        return await self._listed(lambda: (openai_models if openai else list_models)(self._world, request.headers))

    async def _model(self, request: Request) -> Response:
        return await self._listed(lambda: get_model(self._world, request.path_params["name"], request.headers))

    async def _listed(self, answer: Callable[[], Object]) -> Response:
        record = self._journal.begin(self._world.clock(), "models")
        headers = {"request-id": self._world.next_id("req")}
        try:
            record.answer = answer()
        except Refused as refused:
            return self._refuse("models", record, refused, headers)
        record.status = 200
        return json_response(record.answer, 200, headers)

    async def _unknown(self, request: Request, _: Exception) -> Response:
        record = self._journal.begin(self._world.clock(), "unknown")
        headers = {"request-id": self._world.next_id("req")}
        return self._refuse("unknown", record, Refused(404, "not_found_error", f"Not found: {request.url.path}"), headers)

    def _refuse(self, api: str, record: Record, refused: Refused, headers: dict[str, str]) -> Response:
        record.status, record.error = refused.status, refused.message
        body = openai_body(refused) if api in _OPENAI else anthropic_body(refused, headers["request-id"])
        return json_response(body, refused.status, {**headers, **refused.headers})


def _error_event(api: str) -> bytes:
    """An error inside of a stream that has begun well (facts: API section 4)."""
    if api in _OPENAI:
        error: Object = {"type": "server_error", "code": "server_error", "message": "The server had an error.", "param": None}
        if api == "chat":
            return bare_event({"error": error})
        return event({"type": "error", "sequence_number": 99, **{k: v for k, v in error.items() if k != "type"}})
    return event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})


class _Stream(msgspec.Struct):
    stream: bool | None = False
    stream_options: dict[str, object] | None = None


def _wants_stream(data: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(data, type=_Stream).stream)
    except _UNREADABLE:
        return False  # the endpoint says what is wrong with it


def _events(api: str, answer: Object, data: bytes) -> Iterator[bytes]:
    if api == "chat":
        options = msgspec.json.decode(data, type=_Stream).stream_options or {}
        return chat_events(answer, usage=bool(options.get("include_usage")))
    return response_events(answer) if api == "responses" else message_events(answer)
