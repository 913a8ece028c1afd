"""HTTP: bodies in, JSON or events out, connections that are cut on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from .refusal import Object, too_large

MOST_BYTES = 64 << 20
"""Bytes of a body that are read at all, twice what any endpoint takes."""
Transports: TypeAlias = dict[Any, asyncio.Transport]
"""The open connections by the client's address."""


def protocol_for(transports: Transports) -> type[H11Protocol]:
    """The server's protocol, which knows its connections so that one can be cut."""

    class Protocol(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transports[self.client] = transport

        def connection_lost(self, exc: Exception | None) -> None:
            transports.pop(self.client, None)
            super().connection_lost(exc)

    return Protocol


async def read_body(request: Request) -> bytes:
    """The bytes of a body. Raises Refused (413) where they are more than any endpoint takes, after they have been passed over."""
    parts, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= MOST_BYTES:
            parts.append(chunk)
    if size > MOST_BYTES:
        raise too_large()
    return b"".join(parts)


def json_response(body: Object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(msgspec.json.encode(body), status, dict(headers or {}), "application/json")


class Cut(Exception):
    """The connection is cut where no transport is known: the server then ends the response in its middle."""


async def cut(request: Request, transports: Transports, *, at_once: bool) -> Response:
    """Cut a connection: ``at_once`` without another byte, else after what was sent has gone out."""
    client = request.client
    transport = transports.get(None if client is None else (client.host, client.port))
    if transport is None:
        raise Cut("connection cut on purpose")
    if at_once:
        transport.abort()
    else:
        transport.close()
    await asyncio.sleep(0.01)
    return Response()


def event_stream(
    events: Iterator[bytes],
    headers: Mapping[str, str],
    *,
    done: Callable[[bool], None],
    stop_after: int | None = None,
    instead: bytes | None = None,
    cutting: Callable[[], Any] | None = None,
) -> StreamingResponse:
    """A stream of events. ``stop_after`` events the connection is cut with ``cutting``, or ``instead`` is sent and the stream ends.
    ``done`` is told whether all was sent."""

    async def body() -> AsyncIterator[bytes]:
        whole = False
        try:
            for number, data in enumerate(events):
                if number == stop_after:
                    if instead is not None:
                        yield instead
                    elif cutting is not None:
                        await cutting()
                    return
                yield data
            whole = True
        finally:
            done(whole)

    return StreamingResponse(body(), 200, dict(headers), "text/event-stream")
