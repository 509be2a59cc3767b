"""Refusals and failures as HTTP has them: application/problem+json (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Struct

from agent.wire.messages import Answer

MEDIA_TYPE: Final = "application/problem+json"
# HTTP's status of each reason for which a master refuses a query.
OF_REFUSAL: Final[Mapping[str, int]] = {
    "malformed": 400,
    "not_authorised": 403,
    "unknown_service": 404,
    "infeasible": 422,
    "over_rate": 429,
    "overloaded": 503,
}
RETRY_S: Final = 1


class ProblemBody(Struct, frozen=True):
    """The body of every refusal and failure; `reason` is one word for programs."""

    type: str
    title: str
    status: int
    detail: str
    reason: str


class Problem(Exception):
    """Ends a request with a problem; `detail` is one line for people."""

    def __init__(
        self,
        status: int,
        reason: str,
        detail: str,
        *,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.detail = " ".join(detail.split())[:500]
        self.headers = dict(headers or {})
        if retry_after_s is not None:
            self.headers["Retry-After"] = str(max(1, round(retry_after_s + 0.499)))

    @property
    def body(self) -> bytes:
        """The JSON."""
        title = HTTPStatus(self.status).phrase
        told = ProblemBody("about:blank", title, self.status, self.detail, self.reason)
        return msgspec.json.encode(told)


def of_refusal(answer: Answer) -> Problem:
    """The problem that stands for a refused answer."""
    reason = answer.reason or "overloaded"
    status = OF_REFUSAL.get(reason, 503)
    retry_s = RETRY_S if status in (429, 503) else None
    return Problem(status, reason, answer.message or reason, retry_after_s=retry_s)
