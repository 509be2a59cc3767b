"""Tables that `fleet lake sql` knows, and what it says of others."""

import pytest

pytest.importorskip("pyspark")  # comes with `make pipeline`

from fleet.lake.sql import views


def test_a_table_that_is_not_there_yet_is_told_with_what_makes_it() -> None:
    known = ["queries", "tasks"]
    assert views.unknown("attainment", known) == (
        "table attainment is made by `fleet report`, from what it reports on; "
        "there are: queries, tasks"
    )
    assert views.unknown("unloaded", known).startswith("table unloaded is made by `fleet report`")
    assert views.unknown("QUARANTINE", known) == (
        "table QUARANTINE has no rows here yet; there are: queries, tasks"
    )
    assert views.unknown("querys", known) == (
        "there is no table querys; did you mean queries? there are: queries, tasks"
    )
    assert "`fleet lake ingest` makes them" in views.unknown("queries", [])
