"""A gateway on a real socket, and a client of HTTP that shows all of an answer."""

import http.client
import json
import zlib
from contextlib import closing
from typing import NamedTuple

import pytest

from agent.gateway.http import app
from testkit.waiting import PATIENCE_S
from tests.gateway.fake import FakeGateway


class Got(NamedTuple):
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def reason(self):
        return self.json["reason"]


def ask(made, path, method="GET", *, token=None, body=None, **headers):
    """One request; names of headers with _ for -."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    if body is not None:
        given.setdefault("Content-Type", "application/json")
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    with closing(
        http.client.HTTPConnection("127.0.0.1", made.port, timeout=PATIENCE_S)
    ) as connection:
        connection.request(method, path, body, given)
        response = connection.getresponse()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Got(response.status, found, response.read())


class Event(NamedTuple):
    name: str
    data: dict
    id: str


class Reader:
    """A browser's stream of events."""

    def __init__(self, made, token, **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", made.port, timeout=PATIENCE_S)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(
            "GET", "/api/v1/stream", headers={"Authorization": f"Bearer {token}", **given}
        )
        self.response = self.connection.getresponse()
        self.unpack = None
        if self.response.getheader("content-encoding") == "gzip":
            self.unpack = zlib.decompressobj(wbits=31)
        self.last_id = ""
        self.text = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()
        self.connection.close()

    def _more(self):
        got = self.response.read1(1 << 16)
        if not got:
            return False
        self.text += got if self.unpack is None else self.unpack.decompress(got)
        return True

    def __iter__(self):
        return self

    def __next__(self):
        """The next event that has data."""
        while True:
            while b"\n\n" not in self.text:
                if not self._more():
                    raise StopIteration
            block, _, self.text = self.text.partition(b"\n\n")
            name, data = "message", None
            for line in block.decode().split("\n"):
                key, _, value = line.partition(": ")
                if key == "id":
                    self.last_id = value
                elif key == "event":
                    name = value
                elif key == "data":
                    data = json.loads(value)
            if data is not None:
                return Event(name, data, self.last_id)

    def until(self, name, holds=lambda data: True):
        """The first event of that name whose data is so."""
        return next(event for event in self if event.name == name and holds(event.data))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A gateway with four areas that tests of a module share, as do those who have no token."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(app, "STRANGERS_BURST", 1e9)
        with FakeGateway(tmp_path_factory.mktemp("gateway")) as started:
            started.viewer = started.token("viewer", rate_per_s=10_000)
            started.asker = started.token("asker", rate_per_s=10_000)
            started.operator = started.token("operator", rate_per_s=10_000)
            yield started
