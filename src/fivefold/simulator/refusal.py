"""What is answered instead of a message: status, error type and text, as the providers word them (facts: API sections 3 and 7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]


class Refused(Exception):
    """A request that is not answered; it becomes the error body of the API that was asked. Never leaves the simulator."""

    def __init__(
        self,
        status: int,
        type: str,
        message: str,
        *,
        code: str | None = None,
        details: Object | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.message = message
        self.code = code
        """Anthropic: ``error.details.error_code``; OpenAI: ``error.code``."""
        self.details = details or {}
        self.param = param
        self.headers = dict(headers or {})


def invalid(message: str, code: str | None = None, **details: Any) -> Refused:
    """400 ``invalid_request_error`` of Anthropic's API."""
    return Refused(400, "invalid_request_error", message, code=code, details=details)


def extra_inputs(path: str) -> Refused:
    """An unknown key, or one whose beta header is missing."""
    return invalid(f"{path}: Extra inputs are not permitted")


def too_long(tokens: int, limit: int) -> Refused:
    """The input alone is over the window."""
    return invalid(f"prompt is too long: {tokens} tokens > {limit} maximum")


def too_large() -> Refused:
    """The body has more bytes than the endpoint takes."""
    return Refused(413, "request_too_large", "Request exceeds the maximum size")


def openai_invalid(message: str, *, param: str | None = None, code: str | None = None, status: int = 400) -> Refused:
    """An ``invalid_request_error`` of OpenAI's APIs."""
    return Refused(status, "invalid_request_error", message, param=param, code=code)


def anthropic_body(refused: Refused, request_id: str) -> Object:
    """The envelope of Anthropic's errors."""
    error: Object = {"type": refused.type, "message": refused.message}
    if refused.code is not None:
        error["details"] = {"error_code": refused.code, **refused.details}
    return {"type": "error", "error": error, "request_id": request_id}


def openai_body(refused: Refused) -> Object:
    """The envelope of OpenAI's errors."""
    return {"error": {"message": refused.message, "type": refused.type, "param": refused.param, "code": refused.code}}
