"""What the official client and a server said to each other: recorded once, replayed in plain tests.

Both stand in for the client's connection pool: all of the client above it is real.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import urllib3

FOLDER = Path(__file__).parent / "exchanges"


def _request(method: str, url: str, options: dict[str, Any]) -> dict[str, Any]:
    """What the server sees, without what differs between machines: host, token, client version."""
    parts = urlsplit(url)
    body = options.get("body")
    return {
        "method": method,
        "path": parts.path,
        "query": dict(parse_qsl(parts.query)),
        "content_type": (options.get("headers") or {}).get("Content-Type"),
        "body": json.loads(body) if body else None,
    }


class Recorder:
    """Keeps what the clients that it joins and their servers say."""

    def __init__(self) -> None:
        self.exchanges: list[dict[str, Any]] = []

    def join(self, api_client: Any) -> None:
        """Pass on and keep what this client asks."""
        pool = api_client.rest_client.pool_manager
        api_client.rest_client.pool_manager = _Recording(pool, self.exchanges)

    def keep(self, name: str) -> None:
        """Write the exchange to its file, one line a request and one an answer."""
        lines = [
            f' {{"request": {json.dumps(e["request"], sort_keys=True)},\n'
            f'  "response": {json.dumps(e["response"], sort_keys=True)}}}'
            for e in self.exchanges
        ]
        text = "[\n" + ",\n".join(lines) + "\n]\n"
        (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


class _Recording:
    def __init__(self, pool: Any, exchanges: list[dict[str, Any]]) -> None:
        self._pool = pool
        self._exchanges = exchanges

    def request(self, method: str, url: str, **options: Any) -> urllib3.HTTPResponse:
        response = self._pool.request(method, url, **options)
        data = response.data
        answer = {"status": response.status, "reason": response.reason, "body": json.loads(data)}
        self._exchanges.append({"request": _request(method, url, options), "response": answer})
        headers = {"Content-Type": "application/json"}
        return urllib3.HTTPResponse(
            io.BytesIO(data),
            headers,
            response.status,
            reason=response.reason,
            preload_content=False,
        )

    def clear(self) -> None:
        self._pool.clear()


class Replay:
    """Answers as the server did, if asked the same in the same order; anything else fails the test.

    `pytest.fail` raises what is no `Exception`: nobody who catches those can hide it.
    """

    def __init__(self, name: str) -> None:
        self._left = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))

    def request(self, method: str, url: str, **options: Any) -> urllib3.HTTPResponse:
        asked = _request(method, url, options)
        if not self._left:
            pytest.fail(f"nothing more was recorded, but the client asks {asked}")
        exchange = self._left.pop(0)
        if asked != exchange["request"]:
            pytest.fail(f"recorded was {exchange['request']}, but the client asks {asked}")
        answer = exchange["response"]
        return urllib3.HTTPResponse(
            io.BytesIO(json.dumps(answer["body"]).encode()),
            {"Content-Type": "application/json"},
            answer["status"],
            reason=answer["reason"],
            preload_content=False,
        )

    def clear(self) -> None:
        """As a pool."""

    def done(self) -> None:
        """Everything that was recorded was asked for."""
        if self._left:
            pytest.fail(f"recorded, but not asked for: {[e['request'] for e in self._left]}")
