"""The drivers. Both run the same generators (``driving``); they differ in how they make a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TypeVar, Unpack

import anyio.to_thread

from .core.rejection import Rejection
from .driving import Driving, Outgoing, Work
from .outcome import Options, asked
from .perform import Effect
from .plan import Plan

T = TypeVar("T")


class Driver(Driving):
    """A conversation under fivefold, for callers without an event loop."""

    def run(self, work: Work[T]) -> T:
        """Make each call that a generator asks for; what a call raises is the generator's to deal with."""
        go_on: Callable[[], Effect] = partial(work.send, None)
        try:
            while True:
                try:
                    effect = go_on()
                except StopIteration as stop:
                    value: T = stop.value
                    return value
                try:
                    go_on = partial(work.send, effect.call(*effect.args))
                except Exception as error:
                    go_on = partial(work.throw, error)
        finally:
            work.close()

    def before_request(
        self, *, source: str = "main", max_tokens: int | None = None, thinks: bool = False, reactive: bool = True
    ) -> Outgoing:
        """The request that is due now, after whatever had to be done first (Q1). Raises CannotFitError at the blocking limit (W4)."""
        return self.run(self.due_work(source, max_tokens, thinks, reactive))

    def rejected(self, rejection: Rejection) -> Outgoing:
        """The request to send instead of the one refused (R). Raises RejectedError where it cannot be recovered."""
        return self.run(self.refused_work(rejection))

    def preview(self, **options: Unpack[Options]) -> Plan:
        """What a compaction would do (X6)."""
        return self.run(self._compact(asked(self.clock(), **options)))

    def fit(self) -> Plan:
        """What it takes to be under the threshold with headroom, and no more (Z1, A11)."""
        return self.run(self._fit())

    def apply(self, plan: Plan) -> Plan:
        """Do what a plan says. Raises PlanError where the conversation has moved on."""
        return self._applied(plan)

    def compact(self, **options: Unpack[Options]) -> Plan:
        """Compact now. Raises CannotFitError where it is no success, VetoedError where a hook said no; the conversation is then what
        it was."""
        return self.run(self._compact_now(asked(self.clock(), **options)))

    def run_background(self) -> int:
        """Perform what the engine wants done in the background: extraction, staging."""
        return self.run(self.background_work())


class AsyncDriver(Driving):
    """The same for callers with an event loop. Cancelling the task cancels the compaction: nothing of it stays (L8)."""

    async def run(self, work: Work[T]) -> T:
        """Make each call that a generator asks for; what a call raises is the generator's to deal with."""
        go_on: Callable[[], Effect] = partial(work.send, None)
        try:
            while True:
                try:
                    effect = go_on()
                except StopIteration as stop:
                    value: T = stop.value
                    return value
                try:
                    go_on = partial(work.send, await called(effect))
                except Exception as error:
                    go_on = partial(work.throw, error)
        finally:
            work.close()

    async def before_request(
        self, *, source: str = "main", max_tokens: int | None = None, thinks: bool = False, reactive: bool = True
    ) -> Outgoing:
        """As ``Driver.before_request``."""
        return await self.run(self.due_work(source, max_tokens, thinks, reactive))

    async def rejected(self, rejection: Rejection) -> Outgoing:
        """As ``Driver.rejected``."""
        return await self.run(self.refused_work(rejection))

    async def preview(self, **options: Unpack[Options]) -> Plan:
        """As ``Driver.preview``."""
        return await self.run(self._compact(asked(self.clock(), **options)))

    async def fit(self) -> Plan:
        """As ``Driver.fit``."""
        return await self.run(self._fit())

    def apply(self, plan: Plan) -> Plan:
        """As ``Driver.apply``."""
        return self._applied(plan)

    async def compact(self, **options: Unpack[Options]) -> Plan:
        """As ``Driver.compact``."""
        return await self.run(self._compact_now(asked(self.clock(), **options)))

    async def run_background(self) -> int:
        """As ``Driver.run_background``."""
        return await self.run(self.background_work())


async def called(effect: Effect) -> object:
    """Make a call on an event loop: what blocks in a thread, what can be awaited awaited."""
    call = effect.call
    if effect.blocking and not _is_async(call):
        found = await anyio.to_thread.run_sync(partial(call, *effect.args), abandon_on_cancel=True)
    else:
        found = call(*effect.args)
    return await found if inspect.isawaitable(found) else found


def _is_async(call: Callable[..., object]) -> bool:
    """Whether calling it only makes a coroutine: a coroutine function, or an object whose call is one."""
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
