"""Faults on purpose: what is done to which request, by its number or by chance with a seed; each is logged (U3)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from ..errors import LeftoverStepsError, SimulatorError
from .refusal import Refused, invalid, openai_invalid, too_large

Kind: TypeAlias = Literal[
    "rate_limit",
    "overloaded",
    "server_error",
    "unauthorized",
    "too_large",
    "prompt_too_long",
    "compaction_unavailable",
    "slow",
    "reset",
    "broken_stream",
    "error_event",
    "refusal",
]


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault. ``at``: the numbers of the requests it hits, from 1, counted over those that a model would answer; or ``rate``:
    the share of them, by chance.

    ``rate_limit`` (429) · ``overloaded`` (529) · ``server_error`` (500) · ``unauthorized`` (401) · ``too_large`` (413) ·
    ``prompt_too_long`` (400; ``tokens`` over ``limit``, or no numbers where ``gap`` is False) · ``compaction_unavailable`` (529, meant
    for requests that want a compaction) · ``slow``: waits ``seconds`` before the answer begins · ``reset``: the connection is cut
    before it · ``broken_stream``: it is cut after ``events`` events · ``error_event``: an error instead of what would follow ``events``
    events · ``refusal``: the model refuses. The two of streams hit a plain request as ``reset`` and ``overloaded``.
    """

    kind: Kind
    at: tuple[int, ...] = ()
    rate: float = 0.0
    retry_after: float | None = 1.0
    seconds: float = 0.1
    events: int = 3
    gap: bool = True
    tokens: int = 211_180
    limit: int = 200_000


class Hit(NamedTuple):
    """A fault that happened. ``number``: of the request it hit, as ``Fault.at`` counts."""

    number: int
    kind: Kind


class Faults:
    """A plan of faults. At most one hits a request, the first of the plan that may. ``log``: what happened, in order."""

    def __init__(self, plan: Iterable[Fault] = (), *, seed: int = 0) -> None:
        self.plan = tuple(plan)
        """The faults that may happen, the first that fits first."""
        self._random = random.Random(seed)
        self._number = 0
        self.log: list[Hit] = []
        for fault in self.plan:
            if not 0 <= fault.rate <= 1 or any(n < 1 for n in fault.at) or not (fault.at or fault.rate):
                raise SimulatorError(f"a fault needs at, numbers from 1, or a rate from 0 to 1: {fault}")

    def next(self) -> Fault | None:
        """The fault of the next request, logged; None where it is spared."""
        self._number += 1
        for fault in self.plan:
            if self._number in fault.at or (fault.rate and self._random.random() < fault.rate):
                self.log.append(Hit(self._number, fault.kind))
                return fault
        return None

    def finish(self) -> None:
        """Raises LeftoverStepsError where a fault was planned for a request that never came."""
        left = [f"{fault.kind} at {n}" for fault in self.plan for n in fault.at if n > self._number]
        if left:
            raise LeftoverStepsError(f"only {self._number} requests came; planned faults are left: {', '.join(left)}")


def refusal_for(fault: Fault, *, openai: bool, streamed: bool) -> Refused | None:
    """The error that a fault is answered with; None where it is no error of the start."""
    after = {} if fault.retry_after is None else {"retry-after": f"{fault.retry_after:g}"}
    match fault.kind:
        case "rate_limit":
            type, status, text = "rate_limit_error", 429, "This request would exceed your organization's rate limit."
            return Refused(status, "tokens" if openai else type, text, code="rate_limit_exceeded" if openai else None, headers=after)
        case "overloaded":
            return _overloaded(openai)
        case "error_event" if not streamed:
            return _overloaded(openai)
        case "compaction_unavailable":
            return Refused(529, "overloaded_error", "Compaction is temporarily unavailable.", code="compaction_unavailable")
        case "server_error":
            return Refused(500, "server_error" if openai else "api_error", "Internal server error")
        case "unauthorized":
            code = "invalid_api_key" if openai else None
            return Refused(401, "invalid_request_error" if openai else "authentication_error", "invalid x-api-key", code=code)
        case "too_large":
            return too_large()
        case "prompt_too_long":
            return _prompt_too_long(fault, openai)
    return None


def _overloaded(openai: bool) -> Refused:
    if openai:
        return Refused(503, "server_error", "The server is overloaded. Please retry your request.")
    return Refused(529, "overloaded_error", "Overloaded")


def _prompt_too_long(fault: Fault, openai: bool) -> Refused:
    if not openai:
        return invalid(f"prompt is too long: {fault.tokens} tokens > {fault.limit} maximum" if fault.gap else "Prompt is too long")
    text = "Your input exceeds the context window of this model. Please adjust your input and try again."
    if fault.gap:
        text = f"This model's maximum context length is {fault.limit} tokens. However, your messages resulted in {fault.tokens} tokens."
    return openai_invalid(text, param="messages", code="context_length_exceeded")


def read_faults(texts: Sequence[str]) -> Faults:
    """A plan from a command line: each text a JSON object of a fault, or ``KIND@N[,N…]`` or ``KIND%PERCENT``. Raises SimulatorError."""
    plan = []
    for text in texts:
        try:
            if text.startswith("{"):
                plan.append(msgspec.json.decode(text, type=Fault))
                continue
            kind, mark, rest = text.partition("@") if "@" in text else text.partition("%")
            given = {"at": [int(n) for n in rest.split(",")]} if mark == "@" else {"rate": float(rest) / 100}
            plan.append(msgspec.convert({"kind": kind, **given}, type=Fault))
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError) as error:
            raise SimulatorError(f"{text!r} is no fault such as overloaded@3 or rate_limit%10: {error}") from error
    return Faults(plan)
