"""Filter parser: ``metric = "temperature" and (value > 30 or area under "b1/f4")``.

    filter    = term {"or" term}
    term      = factor {"and" factor}
    factor    = "(" filter ")" | "*" | predicate
    predicate = attribute ( ("=" | "!=" | "<" | "<=" | ">" | ">=") value
                          | "prefix" string | "under" string
                          | "in" "(" value {"," value} ")"
                          | "between" value "and" value
                          | "present" )
    value     = number | string | "true" | "false"

Strings are those of JSON. ``between`` includes both ends and becomes ``>=`` and ``<=``; ``*``
matches everything. A predicate begins with its attribute, so any name can be one, even ``in`` and
``or``.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final, NoReturn

from agent.wire.base import MAX_TEXT
from agent.wire.predicate_logic import (
    ORDER,
    Alternatives,
    Terms,
    Vocabulary,
    contradiction,
    is_area,
)
from agent.wire.predicates import (
    MAX_CONJUNCTIONS,
    MAX_OPERANDS,
    MAX_PREDICATES,
    Filter,
    FilterError,
    Operator,
    Predicate,
    Value,
)
from agent.wire.tokens import Token, TokenReader, token_pattern

MAX_NUMBER: Final = 1e300
# Predicates that are handled while parentheses are multiplied out: more than any filter has that is
# small enough, so that a short text cannot take a tenth of a second.
WORK: Final = 2_048
OPERATORS: Final = ("=", "!=", *ORDER, "prefix", "under", "in", "between", "present")

_TOKEN: Final = token_pattern(string=r'"(?:[^"\\]|\\(?s:.))*"', sign=r">=|<=|!=|[=<>(),*]")


def read_filter(text: str) -> Filter:
    """Parse `text` into conjunctions without duplicates; `FilterError` if it is invalid, can never
    hold, or exceeds the size of a filter.

    Multiplying out an ``and`` may produce alternatives that can never hold; they are dropped, and
    it is an error if none remains. Between O(length) and O(length · conjunctions²), for multiplying
    out parentheses.
    """
    return _Reader(text).whole()


# As `read_filter`, remembering the last few texts: many clients subscribe alike after a restart.
read_recent: Final = lru_cache(maxsize=8)(read_filter)


class _Reader(TokenReader):
    def __init__(self, text: str) -> None:
        super().__init__(text, _TOKEN, FilterError)
        self._known = Vocabulary()
        self._joined = 0

    @property
    def handled(self) -> int:
        """Predicates that were joined, or tried with a value, so far."""
        return self._joined + self._known.tried

    def whole(self) -> Filter:
        alternatives = self._filter()
        if self.token.kind != "end":
            self.fail("and, or or the end")
        return alternatives.filter()

    def fail(self, expected: str, token: Token | None = None) -> NoReturn:
        found = token or self.token
        if found.kind == "other" and found.text.startswith('"'):
            expected = 'a " at the end of the string'
        super().fail(expected, found)

    def _filter(self) -> Alternatives:
        found = self._term()
        while self.is_word("or"):
            word = self.take()
            for each in self._term():
                found.add(each)
            self._limit("alternatives", len(found), MAX_CONJUNCTIONS, word)
        return found

    def _term(self) -> Alternatives:
        found, word = self._factor(), self.token
        # A run of factors with one alternative each is joined before it is multiplied out.
        run = Alternatives()
        while self.is_word("and"):
            word, more = self.take(), self._factor()
            if len(more) == 1:
                run = self._both(run, more, word) if len(run) else more
                continue
            if len(run):
                found, run = self._both(found, run, word), Alternatives()
            found = self._both(found, more, word)
        return self._both(found, run, word) if len(run) else found

    def _both(self, some: Alternatives, more: Alternatives, word: Token) -> Alternatives:
        multiplied = len(some) * len(more)
        self._limit("alternatives, parentheses multiplied out", multiplied, MAX_CONJUNCTIONS, word)
        found = Alternatives()
        never: list[Predicate] = []
        for one in some:
            self._limit("predicates, parentheses multiplied out", self.handled, WORK, word)
            for other in more:
                both = one | other
                self._joined += (count := len(both.predicates))
                self._limit("predicates joined by and", count, MAX_PREDICATES, word)
                if impossible := self._known.impossible(one, other):
                    never = never or impossible
                else:
                    found.add(both)
        if not len(found):
            self.refuse(contradiction(never), word)
        return found

    def _factor(self) -> Alternatives:
        if self.token.text == "(":
            return self.in_parentheses(self._filter)
        found = Alternatives()
        if self.token.text == "*":
            self.take()
            found.add(self._known.terms(()))
        else:
            found.add(self._predicate())
        return found

    def _predicate(self) -> Terms:
        if self.token.kind != "name":
            self.fail("an attribute, such as temperature, or (")
        attribute = self.take()
        if self.token.text not in OPERATORS:
            # `a = 1 and or b = 2`: more likely an error than an attribute of that name.
            if attribute.text in ("and", "or"):
                self.fail("an attribute, such as temperature", attribute)
            self.fail("one of " + " ".join(OPERATORS))
        found = self._known.terms(self._conditions(attribute.text, self.take().text))
        if never := self._known.never(found):
            self.refuse(contradiction(never), attribute)
        return found

    def _conditions(self, attribute: str, relation: str) -> tuple[Predicate, ...]:
        if relation == "between":
            low = self._comparable()
            if not self.is_word("and"):
                self.fail("and")
            self.take()
            high = self._comparable()
            return Predicate(attribute, ">=", (low,)), Predicate(attribute, "<=", (high,))
        operator: Operator = relation  # type: ignore[assignment]  # one of OPERATORS
        return (Predicate(attribute, operator, self._operands(relation)),)

    def _operands(self, relation: str) -> tuple[Value, ...]:
        match relation:
            case "present":
                return ()
            case "in":
                return self.in_parentheses(self._values)
            case "under":
                if self.token.kind != "string" or not is_area(area := self._string(self.token)):
                    self.fail('an area, such as "b1/f4"')
                self.take()
                return (area,)
            case "prefix":
                if self.token.kind != "string":
                    self.fail("a string in double quotes")
                return (self._value(),)
            case "=" | "!=":
                return (self._value(),)
        return (self._comparable(),)

    def _values(self) -> tuple[Value, ...]:
        values = [self._value()]
        while self.token.text == ",":
            self.take()
            if len(values) == MAX_OPERANDS:
                self.fail(f"at most {MAX_OPERANDS} values")
            values.append(self._value())
        return tuple(values)

    def _comparable(self) -> Value:
        if self.token.kind not in ("number", "string"):
            self.fail("a number or a string in double quotes")
        return self._value()

    def _value(self) -> Value:
        token = self.token
        if token.kind == "string":
            value: Value = self._string(token)
        elif token.kind == "number":
            value = float(token.text)
            if abs(value) > MAX_NUMBER:
                self.fail("a number that is not so large")
        elif token.text in ("true", "false"):
            value = token.text == "true"
        else:
            self.fail("a number, true, false or a string in double quotes")
        self.take()
        return value

    def _string(self, token: Token) -> str:
        try:
            text: str = json.loads(token.text, strict=False)
            text.encode()
        except ValueError:
            self.fail(
                'a string with no other escapes than \\" \\\\ \\/ \\b \\f \\n \\r \\t \\u00e9'
            )
        if len(text) > MAX_TEXT:
            self.fail(f"a string of at most {MAX_TEXT} characters")
        return text

    def _limit(self, what: str, count: int, most: int, word: Token) -> None:
        if count > most:
            self.refuse(f"expected at most {most} {what}; got {count}", word)
