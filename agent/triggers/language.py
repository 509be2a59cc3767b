"""The language of triggers: ``temperature > 30 and (rate(humidity) > 2/min or max(co2) >= 900)``.

    expression = term {"or" term}
    term       = factor {"and" factor}
    factor     = "(" expression ")" | comparison
    comparison = quantity (">" | ">=" | "<" | "<=") number
    quantity   = channel | ("min" | "max" | "mean" | "last" | "rate") "(" channel ")"

The number of a rate has a unit of time: 2/s, 2/min or 2/h.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, Literal, NoReturn, get_args

from msgspec import Struct

from agent.triggers.expression import Both, Comparison, Either, Expression, Function, Operator

SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3_600.0}
FUNCTIONS: Final = tuple(name for name in get_args(Function) if name != "any")
OPERATORS: Final = get_args(Operator)
KEYWORDS: Final = ("and", "or")
# Deeper than anybody writes, and far from the depth that Python's stack allows.
MOST_NESTED: Final = 32
LONGEST_SHOWN: Final = 20

_TOKEN: Final = re.compile(
    r"[ \t\r\n]*(?:(?P<name>[a-z][a-z0-9_]{0,31})(?![A-Za-z0-9_])"
    r"|(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<sign>>=|<=|[<>()/])"
    r"|(?P<end>$)"
    r"|(?P<other>[^ \t\r\n]+))",
    re.ASCII,
)


class TriggerError(ValueError):
    """The text is no trigger: one line says where, what was expected and what is there."""


class _Token(Struct, frozen=True):
    kind: Literal["name", "number", "sign", "end", "other"]
    text: str
    position: int


def read_trigger(text: str) -> Expression:
    """The condition that `text` says; `TriggerError` if it says none. O(length)."""
    return _Reader(text).whole()


class _Reader:
    """Reads from left to right, one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._nested = 0
        self._token = self._next()

    def whole(self) -> Expression:
        """The whole text."""
        expression = self._expression()
        if self._token.kind != "end":
            self._fail("and, or or the end")
        return expression

    def _expression(self) -> Expression:
        parts = self._joined("or", self._term)
        return parts[0] if len(parts) == 1 else Either(parts)

    def _term(self) -> Expression:
        parts = self._joined("and", self._factor)
        return parts[0] if len(parts) == 1 else Both(parts)

    def _joined(self, word: str, read: Callable[[], Expression]) -> tuple[Expression, ...]:
        parts = [read()]
        while self._token.kind == "name" and self._token.text == word:
            self._take()
            parts.append(read())
        return tuple(parts)

    def _factor(self) -> Expression:
        if self._token.text != "(":
            return self._comparison()
        if self._nested == MOST_NESTED:
            self._fail(f"at most {MOST_NESTED} parentheses within one another")
        self._nested += 1
        self._take()
        inside = self._expression()
        self._sign(")")
        self._nested -= 1
        return inside

    def _comparison(self) -> Comparison:
        function, channel = self._quantity()
        if self._token.text not in OPERATORS:
            self._fail("one of > >= < <=")
        operator: Operator = self._take().text  # type: ignore[assignment]  # just looked
        if self._token.kind != "number":
            self._fail("a number")
        if not math.isfinite(number := float(self._token.text)):
            self._fail("a number that is not so large")
        self._take()
        if function == "rate":
            self._sign("/", "the unit of a rate: /s, /min or /h")
            if self._token.text not in SECONDS:
                self._fail("the unit of a rate: s, min or h")
            number /= SECONDS[self._take().text]
        return Comparison(function, channel, operator, number)

    def _quantity(self) -> tuple[Function, str]:
        name = self._name("a channel, such as temperature, or one of " + " ".join(FUNCTIONS))
        if self._token.text != "(":
            return "any", name.text
        if name.text not in FUNCTIONS:
            self._fail("one of " + " ".join(FUNCTIONS), name)
        self._take()
        channel = self._name("a channel, such as temperature")
        self._sign(")")
        return name.text, channel.text  # type: ignore[return-value]  # just looked

    def _name(self, expected: str) -> _Token:
        if self._token.kind != "name" or self._token.text in KEYWORDS:
            self._fail(expected)
        return self._take()

    def _sign(self, sign: str, expected: str = "") -> None:
        if self._token.text != sign:
            self._fail(expected or sign)
        self._take()

    def _take(self) -> _Token:
        taken, self._token = self._token, self._next()
        return taken

    def _next(self) -> _Token:
        match = _TOKEN.match(self._text, self._at)
        assert match is not None
        kind = match.lastgroup
        assert kind is not None
        self._at = match.end()
        return _Token(kind, match[kind], match.start(kind))  # type: ignore[arg-type]  # a group's name

    def _fail(self, expected: str, token: _Token | None = None) -> NoReturn:
        found = token or self._token
        text = found.text if len(found.text) <= LONGEST_SHOWN else found.text[:LONGEST_SHOWN] + "…"
        there = repr(text) if found.text else "the end"
        raise TriggerError(f"at character {found.position + 1}: expected {expected}; got {there}")
