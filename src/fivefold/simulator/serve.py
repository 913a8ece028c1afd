"""The simulator as a whole: the app, and a server for it on this machine alone (U1)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType

from starlette.applications import Starlette

from ..errors import SimulatorError
from ..providers.models import Override
from .accounts import Journal
from .engine import Engine
from .faults import Fault, Faults
from .routes import Routes
from .script import Request, Said, Speaker, Step, speaker_of
from .server import Server, listening_on
from .wire import Transports
from .world import World


class Simulator:
    """A local stand-in for the providers' APIs. As a context manager it serves on 127.0.0.1 from a thread of its own; ``app`` is
    the same as an ASGI application for another server.

    ``model``: the steps of a script, a function from request to reply, a Script or Structural model; None: structural.
    ``windows``: context windows in tokens by model name. ``overrides``: more about models, as in a user's model file. ``clock``:
    seconds since the epoch, for lifetimes in the cache. ``faults``: a plan. ``new_account``, ``keys``: see World. ``port``: 0 takes a
    free one. ``keep``: how many of the newest requests the journal keeps the text of; None: all.
    """

    def __init__(
        self,
        model: Speaker | Callable[[Request], Said | Awaitable[Said]] | Iterable[Step] | None = None,
        *,
        windows: Mapping[str, int] | None = None,
        overrides: Mapping[str, Override] | None = None,
        clock: Callable[[], float] = time.time,
        faults: Faults | Iterable[Fault] = (),
        new_account: bool = True,
        keys: tuple[str, ...] = (),
        port: int = 0,
        keep: int | None = None,
    ) -> None:
        self.world = World(windows=windows, overrides=overrides, clock=clock, new_account=new_account, keys=keys)
        self.journal = Journal(keep)
        self.faults = faults if isinstance(faults, Faults) else Faults(faults)
        self._engine = Engine(speaker_of(model), self.faults)
        self._transports: Transports = {}
        self._port = port
        self._server: Server | None = None
        self.app: Starlette = Routes(self.world, self.journal, self._engine, self.faults, self._transports).app()

    @property
    def url(self) -> str:
        """The base URL for Anthropic's SDK; OpenAI's takes it with ``/v1`` behind. Raises SimulatorError where it is not started."""
        if self._server is None:
            raise SimulatorError("the simulator is not started: use it in a with statement, or call start()")
        return self._server.url

    def start(self) -> None:
        """Serve, from a thread. Raises SimulatorError where the port is taken."""
        if self._server is not None:
            raise SimulatorError("the simulator is started already")
        server = Server(self.app, listening_on(self._port), self._transports)
        server.start()
        self._server = server

    def stop(self) -> None:
        """Stop serving; nothing where it is not started."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def finish(self) -> None:
        """Raises UnexpectedRequestError, LeftoverStepsError or SimulatorError where not all went as planned (U4)."""
        self._engine.finish()

    def __enter__(self) -> Simulator:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        if kind is None:
            self.finish()
