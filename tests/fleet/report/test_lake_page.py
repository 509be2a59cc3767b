"""What docs/run/lake.md shows really reads a lake without this project."""

import re
from pathlib import Path

import pytest

from tests.fleet.report.frames import small_lake

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[3] / "docs" / "run" / "lake.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def lake(spark, tmp_path_factory):
    return small_lake(spark, tmp_path_factory.mktemp("page") / "lake")


@pytest.mark.parametrize(
    ("library", "expected"),
    [("duckdb", r"iad1.*2026-11-20.*10 .* 1\.0"), ("pyspark", r"n1 *\| *temperature.*20\.0"),
     ("pyarrow", r"^1\n$")],
)  # fmt: skip
def test_snippets_of_the_page_read_the_lake(library, expected, spark, lake, monkeypatch, capsys):
    (snippet,) = [text for text in SNIPPETS if f" {library}" in text]
    monkeypatch.chdir(lake.root.parent)
    # So do Spark's readers of relative paths, which go by the folder that Java was started in.
    snippet = snippet.replace('"lake/', f'"{lake.root}/')
    exec(snippet, {"spark": spark})
    assert re.search(expected, capsys.readouterr().out)
