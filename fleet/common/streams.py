"""Standard streams: what happens when one is closed, or its file cannot be written."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

STDOUT: Final = 1
STDERR: Final = 2
Stream = TypeVar("Stream")


class OutputError(Exception):
    """Standard output cannot be written; one line says why. No OSError: commands take that for an
    error of a file of theirs."""


# Errors are told above the buffer: Ctrl-C within a raw write of Python's, after its bytes are
# written, would have the buffer write them again.
class _Stdout(io.TextIOWrapper):
    def write(self, text: str) -> int:
        with _as_output_error():
            return super().write(text)

    def flush(self) -> None:
        with _as_output_error():
            super().flush()


class _Stderr(io.TextIOWrapper):
    """Work goes on although it cannot be told of."""

    def write(self, text: str) -> int:
        with _passed_over():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with _passed_over():
            super().flush()


@contextmanager
def _as_output_error() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # its reader has had enough
    except OSError as error:
        raise OutputError(f"standard output: {error.strerror}") from None


@contextmanager
def _passed_over() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError:
        pass


class _Closed(io.TextIOBase):
    def write(self, _text: str) -> int:
        raise OutputError("standard output is closed")


def prepare() -> None:
    """Make errors of stdout an `OutputError`, and have a terminal without ° show ?."""
    # No file that is opened later becomes the standard stream of a child.
    while (number := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stdout = _wrapped(sys.stdout, STDOUT, _Stdout)
    sys.stderr = _wrapped(sys.stderr, STDERR, _Stderr)


def give_up() -> None:
    """Write no more to stdout: Python would try again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)


def _wrapped(
    stream: Stream, number: int, kind: type[io.TextIOWrapper]
) -> Stream | io.TextIOWrapper:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    try:
        if stream.fileno() != number:
            return stream
    except OSError:
        return stream
    stream.flush()
    line_buffering = number == STDERR or stream.isatty()
    return kind(
        io.BufferedWriter(io.FileIO(number, "w", closefd=False)),
        encoding=stream.encoding,
        errors="replace",
        line_buffering=line_buffering,
    )
