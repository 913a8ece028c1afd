"""Asks the model behind the simulator, and remembers what went wrong with it for the end."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Literal

from ..errors import SimulatorError, UnexpectedRequestError
from .faults import Faults
from .refusal import Object, Refused
from .script import Reply, Request, Speaker

_NO_RETRY = {"x-should-retry": "false"}


class Engine:
    """One model and what was planned for it."""

    def __init__(self, speaker: Speaker, faults: Faults) -> None:
        self._speaker = speaker
        self._faults = faults
        self._number = 0
        self.unexpected: list[UnexpectedRequestError] = []
        self.failed: list[Exception] = []

    async def ask(
        self,
        *,
        api: str,
        purpose: Literal["turn", "compaction"],
        model: str,
        system: str,
        messages: Sequence[Object],
        tools: Sequence[Object],
        max_tokens: int,
        input_tokens: int,
        instructions: str = "",
    ) -> Reply:
        """The model's reply. Raises Refused (500, not to be tried again) where it has none or fails; ``finish`` tells it too."""
        request = Request(
            api=api,
            purpose=purpose,
            model=model,
            system=system,
            messages=messages,
            tools=tools,
            max_tokens=max_tokens,
            input_tokens=input_tokens,
            number=self._number,
            instructions=instructions,
        )
        self._number += 1
        try:
            reply = self._speaker.answer(request)
            said = await reply if inspect.isawaitable(reply) else reply
            return Reply(said) if isinstance(said, str) else said
        except UnexpectedRequestError as error:
            self.unexpected.append(error)
            raise Refused(500, "api_error", f"simulator: unexpected request: {error}", headers=_NO_RETRY) from error
        except Exception as error:
            raise self.broken(error) from error

    def broken(self, error: Exception) -> Refused:
        """What is answered where the model, or the simulator itself, has failed; ``finish`` tells it too."""
        self.failed.append(error)
        return Refused(500, "api_error", f"simulator: failed: {error!r}", headers=_NO_RETRY)

    def finish(self) -> None:
        """Raises UnexpectedRequestError, SimulatorError or LeftoverStepsError where not all went as planned."""
        if self.failed:
            raise SimulatorError(f"a request failed: {self.failed[0]!r}") from self.failed[0]
        if self.unexpected:
            raise UnexpectedRequestError("; ".join(map(str, self.unexpected)))
        self._speaker.finish()
        self._faults.finish()
