"""What the queries are measured beside: it answers with the rows of the window, and what is missing
on a host is one line."""

import contextlib
import sqlite3

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import query_answerers, query_peers
from bench.output import CannotRunError
from fleet.testbed.ports import free_address

TIMES = [1_000 + 50 * number for number in range(query_peers.READINGS)]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    made = tmp_path_factory.mktemp("answerer") / "readings"
    query_answerers.fill(made, [*range(0, 1_000, 50), *TIMES])
    return made


@pytest.fixture(scope="module")
def answer(file):
    with contextlib.closing(sqlite3.connect(file)) as database:
        yield query_answerers.answering(database)


@given(start=st.integers(-100, 5_000), length=st.integers(0, 5_000))
def test_an_answer_has_the_rows_of_its_window(answer, start, length):
    request = query_answerers.Request(start, start + length)
    rows = msgspec.msgpack.decode(
        answer(msgspec.msgpack.encode(request)), type=query_answerers.Rows
    )
    there = [at for at in [*range(0, 1_000, 50), *TIMES] if start <= at < start + length]
    assert [at for at, _, _ in rows] == there


def test_a_host_without_the_peer_says_where_it_comes_from(monkeypatch):
    monkeypatch.setitem(query_peers.NEEDS, "nats", ("no-such-server", "nats"))
    with pytest.raises(CannotRunError, match=r"^no-such-server; apt-get install no-such-server$"):
        list(query_peers.run("nats"))


@pytest.mark.long
@pytest.mark.parametrize("name", query_peers.PEERS)
@pytest.mark.parametrize("in_flight", [1, 7])
def test_each_peer_answers_all_that_is_asked(name, in_flight, file, tmp_path):
    if missing := query_peers.lacking(name):
        pytest.skip(missing)
    (tmp_path / "readings").write_bytes(file.read_bytes())
    address = free_address().removeprefix("tcp://")
    with (
        query_peers.served(name, tmp_path, address),
        contextlib.closing(query_peers.PEERS[name](address, TIMES)) as asker,
    ):
        taken = asker.ask(20, in_flight)
    assert len(taken) == 20
    assert min(taken) > 0.0
