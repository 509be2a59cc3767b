"""One Spark session for all tests that need one, made once and ended with the process."""

import atexit
from contextlib import ExitStack
from functools import cache

from fleet.spark.session import open_session

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
    session = stack.enter_context(open_session("tests", "local[2]", SETTINGS, ctrl_c_ends=False))
    atexit.register(stack.close)
    return session
