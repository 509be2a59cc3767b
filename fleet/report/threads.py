"""Threads for a report's many small jobs: while Spark plans one of them, another one runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

# More would only wait for one another: most of a small job is done in one thread of the driver.
MAX_THREADS: Final = 4


@contextmanager
def threads() -> Iterator[Executor]:
    """Context manager: what is submitted is begun in that order, and ends with the context; after
    an exception, what was not begun is left out."""
    count = min(len(os.sched_getaffinity(0)), MAX_THREADS)
    with ThreadPoolExecutor(count, thread_name_prefix="report") as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
