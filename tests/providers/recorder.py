"""A tiny HTTP server that records what it is asked and answers with what it was given: for what has to be seen byte by byte."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

PATIENCE = 10.0
"""Seconds that a held stream waits for its client to go."""


@dataclass
class Canned:
    """An answer. ``body``: an object, a list of a stream's events, or bytes."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    """Close the connection in the middle of the body."""
    hold: bool = False
    """Go on sending pings behind the events, until the client is gone."""
    wait: float = 0.0
    """Seconds before anything is said."""


@dataclass
class Asked:
    """A request."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None


class Recorder:
    """Answers in order; the last answer again and again."""

    def __init__(self, *answers: Canned) -> None:
        self.answers = list(answers)
        self.asked: list[Asked] = []
        self.gone = threading.Event()
        """Set when the client of a held stream has closed it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Recorder:
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                recorder.answer(self)

            do_GET = do_POST = _any

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = False
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        raw = to.rfile.read(int(to.headers.get("content-length") or 0))
        self.asked.append(Asked(to.path, {key.lower(): value for key, value in to.headers.items()}, raw))
        canned = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        to.close_connection = True
        time.sleep(canned.wait)
        streamed = isinstance(canned.body, list)
        kind = "text/event-stream" if streamed else "application/json"
        data = canned.body if isinstance(canned.body, bytes) else sse(canned.body) if streamed else json.dumps(canned.body).encode()
        try:
            to.send_response(canned.status)
            for name, value in {"content-type": kind, "connection": "close", **canned.headers}.items():
                to.send_header(name, value)
            if canned.cut or not streamed:
                to.send_header("content-length", str(len(data) + (100 if canned.cut else 0)))
            to.end_headers()
            to.wfile.write(data)
            end = time.monotonic() + PATIENCE
            while canned.hold and time.monotonic() < end:
                to.wfile.write(b": still here\n\n")
                time.sleep(0.01)
        except OSError:
            self.gone.set()


def sse(events: Sequence[Any]) -> bytes:
    """Events as a stream of one of the APIs: named after their type where they have one; a text stands as it is."""
    out = []
    for event in events:
        if isinstance(event, str):
            out.append(f"data: {event}\n\n")
            continue
        name = f"event: {event['type']}\n" if isinstance(event.get("type"), str) else ""
        out.append(f"{name}data: {json.dumps(event)}\n\n")
    return "".join(out).encode()
