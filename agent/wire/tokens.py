"""Tokenizer of the trigger and filter parsers: one token of lookahead, errors with a position."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from msgspec import Struct

# Deeper than any sensible text, and far below the limit of Python's stack.
MAX_NESTED: Final = 32
MAX_SHOWN: Final = 20

T = TypeVar("T")


def token_pattern(**kinds: str) -> re.Pattern[str]:
    """A pattern for the next token, after white space: a ``name`` such as a channel's, a
    ``number``, one of `kinds` (a regular expression each), the ``end`` of the text, or ``other`` up
    to a space."""
    known = {
        "name": r"[a-z][a-z0-9_]{0,31}(?![A-Za-z0-9_])",
        "number": r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?",
        **kinds,
        "end": "$",
        "other": r"[^ \t\r\n]+",
    }
    each = "|".join(f"(?P<{kind}>{pattern})" for kind, pattern in known.items())
    return re.compile(rf"[ \t\r\n]*(?:{each})", re.ASCII)


class Token(Struct, frozen=True):
    """A token: `kind` is the pattern's group that matched it."""

    kind: str
    text: str
    position: int


class TokenReader:
    """Reads `text` from left to right.

    `pattern` is a `token_pattern`. Errors are raised as `problem`, with a line that says where,
    what was expected and what was found.
    """

    def __init__(
        self, text: str, pattern: re.Pattern[str], problem: Callable[[str], Exception]
    ) -> None:
        self._text = text
        self._pattern = pattern
        self._problem = problem
        self._at = 0
        self._nested = 0
        self.token = self._next()

    def take(self) -> Token:
        """Return the current token and advance to the next."""
        taken, self.token = self.token, self._next()
        return taken

    def is_word(self, word: str) -> bool:
        """Whether the current token is this word."""
        return self.token.kind == "name" and self.token.text == word

    def sign(self, sign: str, expected: str = "") -> None:
        """Consume this sign, or fail."""
        if self.token.text != sign:
            self.fail(expected or sign)
        self.take()

    def in_parentheses(self, read: Callable[[], T]) -> T:
        """The result of `read` on the tokens between two parentheses."""
        if self._nested == MAX_NESTED:
            self.fail(f"at most {MAX_NESTED} parentheses within one another")
        self._nested += 1
        self.sign("(")
        inside = read()
        self.sign(")")
        self._nested -= 1
        return inside

    def fail(self, expected: str, token: Token | None = None) -> NoReturn:
        """Raise the error that `expected` was expected at `token`, by default the current one."""
        found = token or self.token
        text = found.text if len(found.text) <= MAX_SHOWN else found.text[:MAX_SHOWN] + "…"
        there = repr(text) if found.text else "the end"
        self.refuse(f"expected {expected}; got {there}", found)

    def refuse(self, sentence: str, token: Token) -> NoReturn:
        """Raise the error that the text from `token` on is invalid for this reason."""
        raise self._problem(f"at character {token.position + 1}: {sentence}")

    def _next(self) -> Token:
        match = self._pattern.match(self._text, self._at)
        assert match is not None
        kind = match.lastgroup
        assert kind is not None
        self._at = match.end()
        return Token(kind, match[kind], match.start(kind))
