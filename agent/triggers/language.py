"""Trigger parser: ``temperature > 30 and (rate(humidity) > 2/min or max(co2) >= 900)``.

    expression = term {"or" term}
    term       = factor {"and" factor}
    factor     = "(" expression ")" | comparison
    comparison = quantity (">" | ">=" | "<" | "<=") number
    quantity   = channel | ("min" | "max" | "mean" | "last" | "rate") "(" channel ")"

The number of a rate has a unit of time: 2/s, 2/min or 2/h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, get_args

from agent.triggers.expression import Both, Comparison, Either, Expression, Function, Operator
from agent.wire.tokens import Token, TokenReader, token_pattern

SECONDS: Final = {"s": 1.0, "min": 60.0, "h": 3_600.0}
FUNCTIONS: Final = tuple(name for name in get_args(Function) if name != "any")
OPERATORS: Final = get_args(Operator)
KEYWORDS: Final = ("and", "or")

_TOKEN: Final = token_pattern(sign=r">=|<=|[<>()/]")


class TriggerError(ValueError):
    """The text is not a valid trigger; one line says where, what was expected and what found."""


def read_trigger(text: str) -> Expression:
    """Parse `text`; `TriggerError` if it is not a valid trigger. O(length)."""
    return _Reader(text, _TOKEN, TriggerError).whole()


class _Reader(TokenReader):
    def whole(self) -> Expression:
        """Parse the whole text."""
        expression = self._expression()
        if self.token.kind != "end":
            self.fail("and, or or the end")
        return expression

    def _expression(self) -> Expression:
        parts = self._joined("or", self._term)
        return parts[0] if len(parts) == 1 else Either(parts)

    def _term(self) -> Expression:
        parts = self._joined("and", self._factor)
        return parts[0] if len(parts) == 1 else Both(parts)

    def _joined(self, word: str, read: Callable[[], Expression]) -> tuple[Expression, ...]:
        parts = [read()]
        while self.is_word(word):
            self.take()
            parts.append(read())
        return tuple(parts)

    def _factor(self) -> Expression:
        if self.token.text == "(":
            return self.in_parentheses(self._expression)
        return self._comparison()

    def _comparison(self) -> Comparison:
        function, channel = self._quantity()
        if self.token.text not in OPERATORS:
            self.fail("one of > >= < <=")
        operator: Operator = self.take().text  # type: ignore[assignment]  # just looked
        if self.token.kind != "number":
            self.fail("a number")
        if not math.isfinite(number := float(self.token.text)):
            self.fail("a number that is not so large")
        self.take()
        if function == "rate":
            self.sign("/", "the unit of a rate: /s, /min or /h")
            if self.token.text not in SECONDS:
                self.fail("the unit of a rate: s, min or h")
            number /= SECONDS[self.take().text]
        return Comparison(function, channel, operator, number)

    def _quantity(self) -> tuple[Function, str]:
        name = self._name("a channel, such as temperature, or one of " + " ".join(FUNCTIONS))
        if self.token.text != "(":
            return "any", name.text
        if name.text not in FUNCTIONS:
            self.fail("one of " + " ".join(FUNCTIONS), name)
        self.take()
        channel = self._name("a channel, such as temperature")
        self.sign(")")
        return name.text, channel.text  # type: ignore[return-value]  # just looked

    def _name(self, expected: str) -> Token:
        if self.token.kind != "name" or self.token.text in KEYWORDS:
            self.fail(expected)
        return self.take()
