"""A standalone cluster: the same results as on one machine, also where a worker is killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.fleet.spark import cluster_driver
from tests.fleet.spark.standalone import standalone, wait_for

ROOT = str(Path(cluster_driver.__file__).parents[3])


def begun(folder: Path) -> list[int]:
    """The tasks that have begun, one entry for each attempt."""
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("task-*"))


@pytest.mark.long
def test_a_worker_killed_in_a_job_changes_nothing(spark, tmp_path):
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    with standalone(tmp_path, workers=2) as cluster:
        driver = subprocess.Popen(
            [sys.executable, cluster_driver.__file__, cluster.master, str(tasks)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # The tests' own modules are not on the path of a script.
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": ROOT},
        )
        with driver:
            # Then what the first tasks made lies with both workers, and both are at work.
            wait_for(
                lambda: len([task for task in begun(tasks) if task >= 4]) == 2 or ended(driver)
            )
            assert begun(tasks) == [0, 1, 2, 3, 4, 5], driver.stderr.read()
            assert cluster.kill(0) > 0
            wait_for(lambda: len(cluster.alive()) == 1)
            (tasks / "go").touch()
            out, err = driver.communicate(timeout=300)
    assert (driver.returncode, err) == (0, "")
    said = json.loads(out)
    assert said["reported"] == cluster_driver.reported(spark)
    assert len(said["reported"]) == 6
    assert said["executors"] == 2
    # 10,000 numbers from 0 on; 10,000 = 7 * 1,428 + 4.
    assert said["counted"] == [[rest, 1_429 if rest < 4 else 1_428] for rest in range(7)]
    # The one that was at work, and what was lost of those that were done, was done again.
    assert len(begun(tasks)) > cluster_driver.PARTS + 1
    assert set(begun(tasks)) == set(range(cluster_driver.PARTS))


def ended(process: subprocess.Popen[str]) -> bool:
    return process.poll() is not None
