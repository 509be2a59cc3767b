"""Browsers, as the gateway sees them: each reads its stream of events, and connects again."""

from __future__ import annotations

import http.client
import threading
from contextlib import closing
from typing import Final, Self

PATIENCE_S: Final = 5.0
AGAIN_S: Final = 1.0


class Browsers:
    """So many readers of `/api/v1/stream`; a context manager. `lines` counts what came."""

    def __init__(self, gateway: tuple[str, str], count: int) -> None:
        self._address, self._token = gateway
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(count)]
        self.lines = 0
        self.connected = 0

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def _read(self) -> None:
        while not self._over.is_set():
            with closing(http.client.HTTPConnection(self._address, timeout=PATIENCE_S)) as stream:
                try:
                    headers = {"Authorization": f"Bearer {self._token}"}
                    stream.request("GET", "/api/v1/stream", headers=headers)
                    reply = stream.getresponse()
                    if reply.status == http.client.OK:
                        self.connected += 1
                    while reply.status == http.client.OK and not self._over.is_set():
                        if not reply.readline():
                            break
                        self.lines += 1
                except (OSError, http.client.HTTPException):
                    pass  # the gateway is away, or says nothing
            self._over.wait(AGAIN_S)
