"""The recipe for Grafana's data source Infinity, as the page has it: its request is sent, and its
root selector gives rows with a time and a value.

The backend parser replaces Grafana's variables in the URL, sends the request from the server with
the bearer token, and evaluates the selector as JSONata (documentation of
grafana-infinity-datasource, "Backend parser").
"""

import re
from pathlib import Path

import pytest

from tests.gateway.conftest import ask

ROOT = Path(__file__).parents[2]
PAGE = "docs/use/outputs.md"
HOST = "http://127.0.0.1:8080"
# The one form of JSONata that the page needs.
MAP = re.compile(
    r"\$map\((?P<of>[\w.]+), function\(\$(?P<item>\w+), \$(?P<place>\w+)\) "
    r"\{ \{(?P<fields>.*)\} \}\)"
)
FIELD = re.compile(r'"(\w+)": ([^,]+)')
SPAN_MS = 3_600_000


def recipe():
    """Field → text between backticks, of the page's table."""
    text = (ROOT / PAGE).read_text("utf-8")
    section = text.split("\n## Grafana\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| (.+) \|$", section, re.MULTILINE)
    return {name.strip(): told for name, told in rows}


def code(told):
    return re.findall(r"`([^`]+)`", told)


def at(document, path):
    for name in path.split("."):
        document = document[name]
    return document


def rows(selector, document):
    """What the selector makes of the document."""
    found = MAP.fullmatch(selector)
    assert found, "the evaluator here knows another form"
    fields = dict(FIELD.findall(found["fields"]))

    def value(expression, item, place):
        """Sums of products of paths into the document and the function's own names."""
        names = {f"${found['item']}": item, f"${found['place']}": place}
        terms = []
        for term in expression.split(" + "):
            factors = [
                names[each] if each in names else at(document, each.removeprefix("$$."))
                for each in term.strip().split(" * ")
            ]
            terms.append(factors[0] if len(factors) == 1 else factors[0] * factors[1])
        return terms[0] if len(terms) == 1 else sum(terms)

    return [
        {name: value(expression, item, place) for name, expression in fields.items()}
        for place, item in enumerate(at(document, found["of"]))
    ]


@pytest.fixture
def reply(made):
    """Answered as Infinity's server asks."""
    [url] = code(recipe()["URL"])
    assert url.startswith(HOST)
    now_ms = made.fleet.now_ms()
    area = next(iter(made.fleet.areas))
    path = url.removeprefix(HOST).replace("b1/f4/r413", area)
    path = path.replace("${__from}", str(now_ms - SPAN_MS)).replace("${__to}", str(now_ms))
    assert "$" not in path
    found = ask(
        made, path, token=made.viewer,
        Accept="application/json;q=0.9,text/plain", User_Agent="Grafana/11.2",
    )  # fmt: skip
    assert found.status == 200, found.body
    assert found.headers["content-type"].startswith("application/json")
    return now_ms, found.json


def test_the_recipe_gives_rows_with_a_time_and_a_value(reply):
    now_ms, document = reply
    [selector] = code(recipe()["root selector (JSONata)"])
    found = rows(selector, document)
    assert 100 < len(found) <= 300
    assert [set(row) for row in found] == [set(code(recipe()["columns"]))] * len(found)
    times = [row["time"] for row in found]
    assert all(isinstance(time, int) for time in times)
    assert times == sorted(set(times))
    # The first and the last stretch may reach beyond what was asked for.
    length_ms = document["length_ms"]
    assert now_ms - SPAN_MS - length_ms < times[0] < now_ms - SPAN_MS + length_ms
    assert now_ms - 2 * length_ms < times[-1] <= now_ms
    values = [row["value"] for row in found]
    assert values == document["channels"]["temperature"]["mean"]
    assert any(isinstance(value, float) for value in values)


def test_without_its_token_infinity_is_refused_in_words(made):
    [url] = code(recipe()["URL"])
    found = ask(made, url.removeprefix(HOST).replace("$", ""))
    assert (found.status, found.reason) == (401, "not_authenticated")


@pytest.mark.parametrize("column", ["min", "mean", "max", "count", "bad"])
def test_the_columns_that_the_page_names_are_there(reply, column):
    _, document = reply
    assert f"`{column}`" in (ROOT / PAGE).read_text("utf-8")
    channel = document["channels"]["temperature"]
    assert len(channel[column]) == len(channel["mean"])
