"""What Spark says, in one line."""

import pytest
from pyspark.errors import AnalysisException

from fleet.common import exits
from fleet.spark.errors import EngineError, one_line, spoken

SAID = [
    (
        (
            "[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found. Verify the spelling "
            "and correctness of the schema and catalog.\nSearch path: [`system`]. SQLSTATE: 42P01; "
            "line 1 pos 14;\n'Project [*]\n"
        ),
        "The table or view `x` cannot be found",
    ),
    (
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column named `idd` cannot be resolved. Did you "
            "mean one of the following? [`id`]. SQLSTATE: 42703;\n'Project ['idd]\n"
        ),
        "A column named `idd` cannot be resolved. Did you mean one of the following? [`id`]",
    ),
    (
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'x': extra input 'x'. SQLSTATE: 42601 "
            "(line 1, pos 13)\n\n== SQL ==\nselect * fom x\n-------------^^^\n"
        ),
        "Syntax error at or near 'x': extra input 'x' (line 1, position 13)",
    ),
    (
        (
            "Job aborted due to stage failure: Task 1 in stage 4.0 failed 1 times, most recent "
            "failure: Lost task 1.0 in stage 4.0 (TID 7) (127.0.0.1 executor driver): "
            "java.io.IOException: Mkdirs failed to create file:/proc/x (exists=false)\n\tat org.a.B"
        ),
        "Mkdirs failed to create file:/proc/x (exists=false)",
    ),
    (
        (
            "[STREAM_FAILED] Query [id = 1-2, runId = 3-4] terminated with exception: "
            "[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03 SQLSTATE: XXKST"
        ),
        "Path does not exist: file:/x",
    ),
    (
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
            '  File "worker.py", line 1, in main\n    f()\n'
            "fleet.common.exits.CommandError: too big: 3 > 2\n"
        ),
        "too big: 3 > 2",
    ),
    ("[USER_RAISED_EXCEPTION] my text SQLSTATE: P0001", "my text"),
    # Java does not say on which disk.
    (
        "java.io.IOException: No space left on device",
        (
            "No space left on device: the disk of the lake is full, or that of Spark's own files "
            "(/tmp, or what SPARK_LOCAL_DIRS names); make room there, then run this again"
        ),
    ),
    ("", ""),
]


@pytest.mark.parametrize(("text", "expected"), SAID)
def test_a_message_becomes_its_first_sentence(text: str, expected: str):
    assert one_line(text) == expected


def boom(number: int) -> int:
    raise ValueError(f"{number} is\ntoo much")


@pytest.mark.parametrize(
    ("fails", "status", "text"),
    [
        (lambda s: s.sql("select * from nothing"), 2, "The table or view `nothing` cannot be f"),
        (lambda s: s.range(3).select("idd"), 2, r"`idd` cannot be resolved. Did you mean .*`id`"),
        (lambda s: s.sql("select 1 fom x y"), 2, r"Syntax error .* \(line 1, position 13\)$"),
        (lambda s: s.read.parquet("/none"), 2, "^Path does not exist: file:/none$"),
        (lambda s: s.sql("select 1 / (id - 1) from range(3)").collect(), 1, "^Division by zero$"),
        (lambda s: s.sparkContext.parallelize([7]).map(boom).collect(), 1, "^ValueError: 7 is$"),
        (lambda s: s.range(3).write.parquet("/proc/x"), 1, "^Mkdirs failed to create file:/proc"),
    ],
)
def test_what_fails_in_spark_is_one_line(spark, capfd, fails, status: int, text: str):
    with pytest.raises(EngineError, match=text) as caught, spoken():
        fails(spark)
    assert caught.value.status == status
    assert "\n" not in str(caught.value)


def test_what_is_caught_inside_is_spark_s_own(spark):
    with spoken(), pytest.raises(AnalysisException):
        spark.sql("select * from nothing")


def test_other_errors_pass():
    with pytest.raises(exits.CommandError, match=r"^mine$"), spoken():
        raise exits.CommandError("mine")
    with pytest.raises(KeyError), spoken():
        raise KeyError("a bug")
