"""Bad input of `fleet query`, `watch` and `subscribe`: one clear line, and never a traceback."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.client import NoReplyError
from agent.wire.base import Message
from agent.wire.codec import Decoder, encode
from agent.wire.unions import PublicRequest
from fleet.cli import commands
from fleet.common import exits
from tests.examples import examples

STATUSES = {exits.DONE, exits.USAGE, exits.REFUSED, exits.NO_REPLY}
COMMANDS = ("query", "watch", "subscribe")

# What a command line may hold: any bytes but NUL, as the system gives them to Python.
texts = st.one_of(
    st.text(st.characters(exclude_characters="\0"), max_size=40),
    st.binary(max_size=20).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"?"))),
    st.sampled_from(
        [
            *("", "-", "--", "0", "-1", "1e999", "nan", "inf", "9" * 400, "1" * 5_000, "ß" * 65),
            *("b1/f4", "b1//f4", "/", "b1/" * 16, "b1\n", "tcp://h:1", "tcp://h:0", "ipc://x"),
            *("10m", "0s", "1h1h", "1ms1h", "367d", "1e3s", "p99=500ms", "p0=1s", "p100=1s"),
            *("p99=2h", "p99.99999=1s", "temperature", "T", "*", "value > 30", "value >", "not"),
            *('metric = "', "metric in ()", "value < true", 'area under "//"', "(" * 300),
            *(" or ".join(["value > 1"] * 80), 'area under "b9" and area = "b8"'),
            *("temperature > 30 or", "rate(x) > 1/fortnight", "\x1b[2J", "\u202e", "1" * 70),
        ]
    ),
)
options = st.sampled_from(
    [
        *("--area", "--last", "--ago", "--slo", "--channel", "--timeout", "--service", "--every"),
        *("--window", "--when", "--on", "--for", "--rounds", "--resume", "--after", "--durable"),
        *("--count", "--iad", "--key", "--server-keys", "--master", "--fleet"),
    ]
)
switches = st.sampled_from(
    [
        *("--series", "--aggregate", "--from-clone", "--explain", "--json", "--stream"),
        *("--detach", "--unsubscribe", "--nothing"),
    ]
)
words = st.one_of(
    st.tuples(options, texts),
    st.tuples(switches),
    st.tuples(texts),
)
# Often enough with what is needed, so that what is odd is what decides.
NEEDED = (("--master", "tcp://127.0.0.1:1"), ("--area", "b1"))
lines = st.lists(words, max_size=6).map(lambda parts: [word for part in parts for word in part])


@pytest.fixture(scope="module", autouse=True)
def nobody_answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No socket is opened, and no fleet or demo is found."""

    requests = Decoder[PublicRequest](PublicRequest)

    def silent(_self: object, message: Message) -> None:
        sent.append(message)
        requests.decode(encode(message))
        sent.clear()
        raise NoReplyError("nobody answers")

    folder = tmp_path_factory.mktemp("nowhere")
    before = Path.cwd()
    os.chdir(folder)
    with contextlib.ExitStack() as stack:
        stack.callback(os.chdir, before)
        stack.enter_context(mock.patch.dict(os.environ, {"XDG_RUNTIME_DIR": str(folder)}))
        for name in ("SANDERLING_MASTER", "SANDERLING_FLEET"):
            os.environ.pop(name, None)
        stack.enter_context(mock.patch("agent.client.connection.Connection.send_message", silent))
        yield


# The request that a master could not read.
sent: list[Message] = []


def run(arguments: list[str]) -> tuple[int, str, str]:
    sent.clear()
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = commands.run(arguments)
    return status, out.getvalue(), err.getvalue()


@settings(max_examples=examples(600), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(COMMANDS), st.booleans(), lines)
def test_whatever_is_typed_there_is_one_line_and_a_status(
    command: str, complete: bool, typed: list[str]
) -> None:
    needed = [word for part in NEEDED for word in part][: 2 if command == "subscribe" else 4]
    status, out, err = run([command, *(needed if complete else ()), *typed])
    if "--help" in typed:
        return
    assert sent == [], "a master cannot read it"
    assert status in STATUSES
    assert status == exits.DONE or err.count("\n") == 1, err
    assert status == exits.DONE or err.startswith("fleet: ")
    assert out == "" or status == exits.DONE


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["query", "--area", "b1", "--last", "1h1h"], "names its units out of order"),
        (["query", "--area", "b1", "--slo", "p100=1s"], "the percentile is from"),
        (["query", "--area", "b1", "--slo", f"p99={'9' * 400}s"], "is out of range: above 0"),
        (["query", "--area", "b1", "--service", ""], "service"),
        (["query", "--area", "b1", "--service", "a b"], "service"),
        (["watch", "--area", "b1", "--every", "1s", "--service", "x" * 65], "service"),
        (["subscribe", "value > "], "expected"),
        (["subscribe", "value < true"], "expected a number or a string"),
    ],
)
def test_it_says_what_is_wrong(arguments: list[str], says: str) -> None:
    status, _, err = run([*arguments, "--master", "tcp://127.0.0.1:1"])
    assert (status, err.count("\n")) == (exits.USAGE, 1)
    assert says in err
