"""Serving an app over HTTP from a thread: uvicorn's protocol on a loop of its own, started and stopped within milliseconds."""

from __future__ import annotations

import asyncio
import socket
import threading
from email.utils import formatdate

import uvicorn
from starlette.applications import Starlette
from uvicorn.server import ServerState

from ..errors import SimulatorError
from .wire import Transports, protocol_for

START_SECONDS = 10.0
GRACE_SECONDS = 1.0
"""How long answers that are under way may take when it is stopped."""
_KEEP_ALIVE_SECONDS = 3_600
"""Longer than any client keeps a connection, so that none is closed under a request."""


def listening_on(port: int) -> socket.socket:
    """A socket on 127.0.0.1; port 0 takes a free one. Raises SimulatorError where the port is taken."""
    # With the protocol named, asyncio switches Nagle's algorithm off; else each answer waits 40 ms for the client's delayed ACK.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise SimulatorError(f"port {port} of 127.0.0.1 cannot be used: {error.strerror or error}") from error
    return listening


class Server:
    """An app that is served from a thread until it is stopped."""

    def __init__(self, app: Starlette, listening: socket.socket, transports: Transports) -> None:
        self._config = uvicorn.Config(
            app, ws="none", lifespan="off", log_config=None, log_level="critical", access_log=False, timeout_keep_alive=_KEEP_ALIVE_SECONDS
        )
        self._listening = listening
        self._transports = transports
        self._state = ServerState()
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="fivefold-simulator", daemon=True)
        host, port = listening.getsockname()[:2]
        self.url = f"http://{host}:{port}"

    def start(self) -> None:
        """Serve. Raises SimulatorError where it does not come up."""
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise SimulatorError("the simulator's server did not start")

    def stop(self) -> None:
        """End: answers under way are finished or, after a while, cut."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(START_SECONDS)
        self._listening.close()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._config.load()
        self._state.default_headers = [(b"date", formatdate(usegmt=True).encode())]
        protocol = protocol_for(self._transports)
        server = await self._loop.create_server(
            lambda: protocol(config=self._config, server_state=self._state, app_state={}), sock=self._listening
        )
        self._ready.set()
        await self._end.wait()
        server.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._drain()
        await server.wait_closed()

    async def _drain(self) -> None:
        waited = 0.0
        while self._state.connections or self._state.tasks:
            if waited >= GRACE_SECONDS:
                for task in list(self._state.tasks):
                    task.cancel()
                for transport in list(self._transports.values()):
                    transport.abort()
                await asyncio.sleep(0.01)
                return
            await asyncio.sleep(0.002)
            waited += 0.002
