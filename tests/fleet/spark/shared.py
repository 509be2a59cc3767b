"""One Spark session for all tests that need one, made once and ended with the process."""

import atexit
from contextlib import ExitStack, contextmanager
from functools import cache

from fleet.spark import session

# Java compiles quickly rather than well, and collects in one thread: tests are short, processors
# few.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.driver.extraJavaOptions": SHORT_LIVED,
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.sql.warehouse.dir": "/tmp/sanderling-test-warehouse",
}


@cache
def shared_session():
    stack = ExitStack()
    made = stack.enter_context(
        session.open_session("tests", "local[2]", SETTINGS, ctrl_c_ends=False)
    )
    atexit.register(stack.close)
    return made


def lend(monkeypatch):
    """Commands that open a session in this process get that one: there can be no other."""
    shared = shared_session()

    @contextmanager
    def opened(_name, _master=session.LOCAL):
        yield shared

    monkeypatch.setattr(session, "open_session", opened)
