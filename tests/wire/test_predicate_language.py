"""The language of filters, and what is left out of them or refused."""

import math
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.wire import predicate_logic, predicate_values
from agent.wire.predicate_language import WORK, _Reader, read_filter
from agent.wire.predicate_logic import Alternatives, Vocabulary, check, contradiction
from agent.wire.predicates import (
    MAX_CONJUNCTIONS,
    MAX_OPERANDS,
    MAX_PREDICATES,
    Filter,
    FilterError,
    Predicate,
    plain,
    write_filter,
)
from agent.wire.push import Notified, PushReply
from agent.wire.tokens import MAX_NESTED
from tests.oracles.matching import holds, satisfiable
from tests.predicate_samples import (
    conjunction_structs,
    conjunctions,
    events,
    filters,
    on_one_attribute,
    unhurried,
)

BETWEEN = "value >= 20 and value <= 30"


def fulfilled(disjunction, event):
    return any(holds(conjunction, event) for conjunction in disjunction)


def simplified(disjunction):
    known, found = Vocabulary(), Alternatives()
    for conjunction in disjunction:
        found.add(known.terms(conjunction))
    return found.filter()


def possible(disjunction):
    return all(map(satisfiable, disjunction))


# --- reading --------------------------------------------------------------------------------------


def test_every_kind_of_predicate():
    found = read_filter(
        'a = "x" and b != -1.5e1 and c < 3 and d <= "\\u00e9" and e > 0 and f >= .5'
        ' and g prefix "b1/" and h under "b1/f4" and i in (1, "1", true) and j present'
        " and k = false"
    )
    assert found == (
        (
            Predicate("a", "=", ("x",)),
            Predicate("b", "!=", (-15.0,)),
            Predicate("c", "<", (3.0,)),
            Predicate("d", "<=", ("é",)),
            Predicate("e", ">", (0.0,)),
            Predicate("f", ">=", (0.5,)),
            Predicate("g", "prefix", ("b1/",)),
            Predicate("h", "under", ("b1/f4",)),
            Predicate("i", "in", (1.0, "1", True)),
            Predicate("j", "present"),
            Predicate("k", "=", (False,)),
        ),
    )
    assert [type(each) for each in found[0][8].operands] == [float, str, bool]
    assert found[0][10].operands[0] is False


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a=1 or b=2 and c=3", "a = 1 or b = 2 and c = 3"),
        ("(a=1 or b=2) and c=3", "a = 1 and c = 3 or b = 2 and c = 3"),
        ("((a=1))", "a = 1"),
        ("value between 20 and 30", BETWEEN),
        ("value between 20 and 30 and c=3", BETWEEN + " and c = 3"),
        ('a between "b" and "c"', 'a >= "b" and a <= "c"'),
        ("a=1 and\n\ta = 1.0", "a = 1"),
        ("a=1 or b=2 or a=1", "a = 1 or b = 2"),
        ("a=1 or b=2 and a=1", "a = 1"),
        ("a=1 and b=2 or c=3 or b=2", "c = 3 or b = 2"),
        ('a = "\n\t\0"', 'a = "\\n\\t\\u0000"'),
        (" and ".join(f"(a{i % 9} = 1)" for i in range(99)), None),
        ("(a=1 or b=2) and (a=1 or c=3)", "a = 1 or b = 2 and c = 3"),
        ("a in (1, 2, 1.0, true, 1)", "a in (1, 2, true)"),
        ("a in (1, 2) and a in (2, 1)", "a in (2, 1)"),
        ("a in (1) and a in (1, 1)", "a in (1)"),
        # What parentheses multiply out to may hold in part.
        ("(a=1 or b=2) and (a=3 or c=4)", "a = 1 and c = 4 or b = 2 and a = 3 or b = 2 and c = 4"),
        ("*", "*"),
        ("* and a=1", "a = 1"),
        ("* or a=1", "*"),
        ('in in (1) and or = 1 or and present or present prefix ""', None),
        (
            "true = true and between between 1 and 2",
            "true = true and between >= 1 and between <= 2",
        ),
        ('a = "\\"\\\\\\u00e9\\ud83d\\ude00\\n"', 'a = "\\"\\\\é😀\\n"'),
        ('a = "\x7f\u2028"', 'a = "\\u007f\\u2028"'),
        ("a = 1e300 and b = 123456789012345678", "a = 1e+300 and b = 1.2345678901234568e+17"),
    ],
)
def test_the_canonical_text(text, canonical):
    found = read_filter(text)
    if canonical is not None:
        assert write_filter(found) == canonical
    assert read_filter(write_filter(found)) == found


VALUE = "expected a number, true, false or a string in double quotes"
ATTRIBUTE = "expected an attribute, such as temperature"
OPERATOR = "expected one of = != < <= > >= prefix under in between present"
STRING = r"expected a string with no other escapes than \" \\ \/ \b \f \n \r \t \u00e9"
MULTIPLIED = "expected at most 64 alternatives, parentheses multiplied out"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", f"at character 1: {ATTRIBUTE}, or (; got the end"),
        ("a = 1 and", f"at character 10: {ATTRIBUTE}, or (; got the end"),
        ("a = 1 and or b = 2", f"at character 11: {ATTRIBUTE}; got 'or'"),
        ("a = temperature", f"at character 5: {VALUE}; got 'temperature'"),
        ("a == 1", f"at character 4: {VALUE}; got '='"),
        ("a = 'x'", f"at character 5: {VALUE}; got \"'x'\""),
        ("a in ()", f"at character 7: {VALUE}; got ')'"),
        ("a in 1", "at character 6: expected (; got '1'"),
        ("a > true", "at character 5: expected a number or a string in double quotes; got 'true'"),
        ("a prefix 1", "at character 10: expected a string in double quotes; got '1'"),
        ('a under "b1/"', 'at character 9: expected an area, such as "b1/f4"; got \'"b1/"\''),
        ("a between 1", "at character 12: expected and; got the end"),
        ("a = 1 b = 2", "at character 7: expected and, or or the end; got 'b'"),
        ("(a = 1", "at character 7: expected ); got the end"),
        ("a = 2e300", "at character 5: expected a number that is not so large; got '2e300'"),
        ("a = -2e300", "at character 5: expected a number that is not so large; got '-2e300'"),
        ("a" * 33 + " = 1", f"at character 1: {ATTRIBUTE}, or (; got '{'a' * 20}…'"),
        ('a = "\\\n"', f"at character 5: {STRING}; got '\"\\\\\\n\"'"),
        ('a = "b c', "at character 5: expected a \" at the end of the string; got '\"b'"),
        ("Temperature = 1", f"at character 1: {ATTRIBUTE}, or (; got 'Temperature'"),
        ("co2", f"at character 4: {OPERATOR}; got the end"),
        ("not a = 1", f"at character 5: {OPERATOR}; got 'a'"),
        ('a = "\\ud800"', f"at character 5: {STRING}; got '\"\\\\ud800\"'"),
        ('a = "\\q"', f"at character 5: {STRING}; got '\"\\\\q\"'"),
        (
            f'a = "{"x" * 513}"',
            "at character 5: expected a string of at most 512 characters; got '\""
            + "x" * 19
            + "…'",
        ),
        (
            "(" * (MAX_NESTED + 1),
            "at character 33: expected at most 32 parentheses within one another; got '('",
        ),
        (
            "a > 30 and a < 20 or b = 1",
            "at character 8: a > 30 and a < 20 never hold together",
        ),
        ("a = 1 and (a = 2 or a = 3)", "at character 7: a = 1 and a = 2 never hold together"),
        (
            "b = 1 and a between 30 and 20",
            "at character 11: a >= 30 and a <= 20 never hold together",
        ),
        ('a < ""', 'at character 1: a < "" never holds'),
        (
            " or ".join(f"a = {i}" for i in range(MAX_CONJUNCTIONS + 1)),
            "at character 628: expected at most 64 alternatives; got 65",
        ),
        (
            " and ".join(f"(a{i}=1 or b{i}=1)" for i in range(28)),
            # Not 2**28 of them before it is said.
            f"at character 111: {MULTIPLIED}; got 128",
        ),
        (
            " and ".join(f"a{i}=1" for i in range(MAX_PREDICATES + 1)),
            "at character 307: expected at most 32 predicates joined by and; got 33",
        ),
        (
            f"a in ({', '.join(map(str, range(MAX_OPERANDS + 1)))})",
            "at character 253: expected at most 64 values; got '64'",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text, error):
    with pytest.raises(FilterError) as caught:
        read_filter(text)
    assert str(caught.value) == error


# Close to the language, so that much of it is read far.
WORDS = ["a", "b2", "or", "and", "in", "(", ")", "*", "=", "!=", "<", ">=", "prefix", "under"]
WORDS += ["between", "present", "true", "1", "-2.5", "1e999", '"b1"', '"b1/f4"', '"\\u00e9"', ","]
word_salad = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)


@st.composite
def mutated(draw):
    text = write_filter(draw(filters))
    at = draw(st.integers(0, len(text)))
    gone = draw(st.integers(0, 3))
    return text[:at] + draw(st.text(max_size=2) | st.sampled_from(WORDS)) + text[at + gone :]


any_character = st.characters(codec=None, exclude_categories=())


@unhurried
@given(st.text(any_character, max_size=60) | word_salad | mutated())
def test_any_text_is_a_filter_or_one_line_that_says_where(text):
    try:
        found = read_filter(text)
    except FilterError as error:
        said = str(error)
        where = re.fullmatch(r"at character (\d+): .+", said)
        assert 1 <= int(where[1]) <= len(text) + 1
        assert said.isprintable()
    else:
        check(found)
        # It fits into a message, as text and as structs.
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Filter) == found
        assert read_filter(write_filter(found)) == found


@unhurried
@given(filters, events)
def test_what_is_written_is_read_as_the_same(disjunction, event):
    if possible(disjunction):
        text = write_filter(disjunction)
        assert text.isprintable()
        found = read_filter(text)
        assert write_filter(found) == write_filter(simplified(disjunction))
        assert fulfilled(found, event) == fulfilled(disjunction, event)


trees = st.recursive(
    conjunction_structs,
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), inner, inner),
    max_leaves=5,
)


def is_leaf(tree):
    return not (tree and isinstance(tree[0], str))


def text_of(tree):
    if is_leaf(tree):
        return "(" + write_filter((tree,)) + ")"
    word, left, right = tree
    return f"({text_of(left)} {word} {text_of(right)})"


def twin(tree, event):
    if is_leaf(tree):
        return holds(tree, event)
    word, left, right = tree
    return {"and": all, "or": any}[word]((twin(left, event), twin(right, event)))


def alternatives_of(tree):
    """All that it multiplies out to, of which some may never hold."""
    if is_leaf(tree):
        return [plain(tree)]
    word, left, right = tree
    left, right = alternatives_of(left), alternatives_of(right)
    return left + right if word == "or" else [one + other for one in left for other in right]


def every_part_can_hold(tree):
    if is_leaf(tree):
        return satisfiable(tree)
    return (
        any(map(satisfiable, alternatives_of(tree)))
        and every_part_can_hold(tree[1])
        and every_part_can_hold(tree[2])
    )


@unhurried
@given(trees, st.lists(events, min_size=3, max_size=3))
def test_parentheses_multiplied_out_mean_what_was_written(tree, some_events):
    try:
        found = read_filter(text_of(tree))
    except FilterError:
        assert not every_part_can_hold(tree)
        return
    assert every_part_can_hold(tree)
    assert possible(found)
    for event in some_events:
        assert fulfilled(found, event) == twin(tree, event)


# --- what can never hold, and checks of structs ---------------------------------------------------


@unhurried
@given(conjunctions | on_one_attribute)
def test_contradictions_are_found_exactly(conjunction):
    structs = tuple(Predicate(*each) for each in conjunction)
    assert (contradiction(structs) == "") == satisfiable(conjunction)


@unhurried
@given(filters, events)
def test_simplified_means_the_same(disjunction, event):
    found = simplified(disjunction)
    assert fulfilled(found, event) == fulfilled(disjunction, event)
    assert simplified(found) == found
    assert len(found) <= len(disjunction)


def test_true_and_1_are_not_taken_for_the_same():
    one, true = Predicate("a", "=", (1.0,)), Predicate("a", "=", (True,))
    assert one != true
    assert one == Predicate("a", "=", (1,))
    assert hash(one) == hash(Predicate("a", "=", (1,)))
    assert one != ("a", "=", (1.0,))
    assert len(simplified(((one,), (true,)))) == 2
    assert write_filter(simplified(((Predicate("a", "in", (1, True, 1.0)),),))) == "a in (1, true)"


@pytest.mark.parametrize(
    ("predicate", "error"),
    [
        (Predicate("a", "="), "a =: expected one value after ="),
        (Predicate("a", "!=", (1, 2)), "a != 1, 2: expected one value after !="),
        (Predicate("a", "<", (True,)), "a < true: expected one number or string after <"),
        (Predicate("a", "in"), "a in (): expected at least one value after in"),
        (Predicate("a", "present", (1,)), "a present 1: expected nothing after present"),
        (Predicate("a", "prefix", (1,)), "a prefix 1: expected one string after prefix"),
        (
            Predicate("a", "under", ("b1/",)),
            'a under "b1/": expected one area, such as "b1/f4", after under',
        ),
        (
            Predicate("a", "under", ("b1\n",)),
            'a under "b1\\n": expected one area, such as "b1/f4", after under',
        ),
    ],
)
def test_structs_that_mean_nothing_are_refused(predicate, error):
    with pytest.raises(FilterError, match=f"^{re.escape(error)}$"):
        check(((predicate,),))


def test_structs_that_never_hold_are_refused():
    never = (Predicate("a", ">", (30,)), Predicate("b", "present"), Predicate("a", "<", (20,)))
    with pytest.raises(FilterError, match=r"^a > 30 and a < 20 never hold together$"):
        check(((), never))


def test_three_predicates_that_hold_in_pairs():
    three = (
        Predicate("a", "in", (True, False)),
        Predicate("a", "!=", (True,)),
        Predicate("a", "!=", (False,)),
    )
    said = "a in (true, false) and a != true and a != false never hold together"
    assert contradiction(three) == said


@unhurried
@given(filters)
def test_checked_filters_are_those_that_can_be_written_and_read(disjunction):
    try:
        check(disjunction)
    except FilterError:
        assert not possible(disjunction)
    else:
        assert possible(disjunction)


# --- docs/use/subscriptions.md
# ------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs/use/subscriptions.md").read_text()
PROSE = re.sub(r"^```.*?^```", "", PAGE, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("text", re.findall(r"^    (\S.*)$", PROSE, re.MULTILINE))
def test_the_examples_of_the_page_are_filters(text):
    assert read_filter(text)


@pytest.mark.parametrize("text", re.findall(r"^\| `([^`]+ [^`]+)`", PAGE, re.MULTILINE))
def test_the_predicates_of_the_page_are_filters(text):
    assert read_filter(text)


def test_the_page_shows_what_is_on_the_wire():
    notified, shown = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert isinstance(msgspec.json.decode(notified, type=PushReply), Notified)
    text = re.search(r"read_filter\('(.*)'\)", PAGE)[1]
    assert msgspec.json.encode(read_filter(text)) == shown.replace(" ", "").strip().encode()
    assert write_filter(read_filter(text)) == re.search(r"\(wanted\)\)  # (.*)", PAGE)[1]


def meeting(count):
    """Alternatives that meet as many others, of which each leaves one of every two."""
    some = "(" + " or ".join(f"a > {n}" for n in range(32)) + ")"
    return some + "".join(f" and (b{n} > 1 or a < 0)" for n in range(count))


def test_a_short_text_cannot_take_long_to_multiply_out():
    assert len(read_filter(meeting(5))) == 32
    with pytest.raises(FilterError, match="at most 2048 predicates, parentheses multiplied out"):
        read_filter(meeting(10))


def test_values_that_are_tried_count():
    # Each part excludes the value that fulfilled all before it.
    text, value = "(" + " or ".join(f"a >= 0 and b = {n}" for n in range(20)) + ")", 0.0
    for _ in range(4):
        text += f" and (a != {value} or b = 99)"
        value = math.nextafter(value, math.inf)
    reader = _Reader(text)
    reader.whole()
    joined = sum(20 * 2 * (3 + n) for n in range(4))
    assert reader.handled > joined + 20 * 4 * 2


def test_what_is_joined_by_and_is_joined_before_it_is_multiplied_out():
    reader = _Reader(
        "(" + " or ".join(f"a > {n}" for n in range(20)) + ")"
        + "".join(f" and a < {n + 100}" for n in range(20))
    )  # fmt: skip
    assert len(reader.whole()) == 20
    assert reader.handled < WORK


def test_predicates_of_other_attributes_are_not_checked_again(monkeypatch):
    checked = []

    def some_value(predicates, conditions):
        checked.append(len(predicates))
        return predicate_values.some_value(predicates, conditions)

    monkeypatch.setattr(predicate_logic, "some_value", some_value)
    read_filter(
        "(" + " or ".join(f"a > {n}" for n in range(8)) + ")" + " and b < 1" + " and a < 99"
    )
    # Each predicate once. Where those of `a` meet, the same value fulfils both.
    assert checked == [1] * 10
