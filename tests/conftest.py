"""A ZeroMQ context that is gone after the test; how workers share files; suites that must run."""

import gc
import os
import signal
import sys

import pytest
import zmq
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from testkit.waiting import PATIENCE_MS
from tests.examples import examples
from tests.processor_time import ProcessorTime
from tests.turns import turn

# Where the environment forbids to keep compiled modules, each worker would compile all tests anew,
# and each agent that a test starts all of its own: a third of the suite's work.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# In the background a shell may have it ignored, which every process of the tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Wall time decides nothing: a busy machine is no failure.
settings.register_profile(
    "any machine",
    deadline=None,
    max_examples=examples(100),
    # Nor may chance: a run of examples that a test passes over is no fault.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("any machine")
# Their tests share one JVM, which takes a gigabyte and half a minute to warm up.
SPARK = (
    "tests/fleet/spark/",
    "tests/fleet/spark_jobs/",
    "tests/fleet/report/",
    "tests/lab/test_placement_loop.py",
    "tests/lab/test_simulate_spark.py",
)


# Files with few tests that take long, the longest first: begun last, as the scheduler would have it
# that counts tests, they would keep one worker at work when the others have ended.
FIRST = (
    "tests/fleet/demo/",
    *SPARK,
    "tests/docs/",
    "tests/trust/",
    "tests/market/test_service_setup.py",
    "tests/fleet/query/",
    "tests/lab/",
    "tests/fleet/",
    "tests/master/",
)


# Marked moved: fleets of agents that are killed and moved, whose decisions faster tests cover.
MOVED = (
    "tests/fleet/image_flash/test_firstboot.py",
    "tests/fleet/testbed/test_testbed.py",
    "tests/market/test_service_setup.py",
    "tests/master/clones/test_clone_process.py",
    "tests/master/clones/test_derived_process.py",
    "tests/master/moves/test_handover_process.py",
    "tests/master/moves/test_home_process.py",
    "tests/master/placement/test_placement_process.py",
    "tests/master/test_quality_process.py",
    "tests/master/test_slow_disk_process.py",
    "tests/master/standby/test_standby_process.py",
    "tests/master/topics/test_worker_process.py",
    "tests/torture/test_power_cuts.py",
    "tests/trust/test_market.py",
    "tests/trust/test_privacy.py",
    "tests/trust/test_processes.py",
    "tests/trust/test_push_privacy.py",
)
# Marked slow: each drives a whole experiment, a demo, Spark or such a fleet through code that
# faster tests cover. Those of `_core` are run against the debug build by `make test`.
SLOW = (
    *MOVED,
    *SPARK,
    "tests/bench/test_loop_benches.py",
    "tests/core/",
    "tests/docs/test_pastes.py",
    "tests/fleet/demo/",
    "tests/fleet/plan/test_plan_command.py",
    "tests/fleet/query/test_slices.py",
    "tests/fleet/simulation/test_simulator_equivalence.py",
    "tests/lab/test_autoscale.py",
    "tests/lab/test_overlay.py",
    "tests/lab/test_placement_",
    "tests/lab/test_policy_limits.py",
    "tests/lab/test_quality.py",
    "tests/lab/test_simulate",
    "tests/lab/test_testbed_",
    "tests/overlay/test_broker_schedules.py",
    "tests/placement/test_take_over.py",
    "tests/sensors/test_quality_recording.py",
)


# Marked resources: their many examples keep databases and files open.
RESOURCES = (
    "tests/edge/test_faults.py",
    "tests/edge/test_history_model.py",
    "tests/master/storage/test_notification_store",
    "tests/master/storage/test_state.py",
)


class FilesTogether(LoadFileScheduling):
    """A file's tests stay with one worker, since they share fleets; so do all that use Spark."""

    def __init__(self, config, log):
        super().__init__(config, log)
        config.option.loadscopereorder = False  # the order is that below

    def _split_scope(self, nodeid):
        file = super()._split_scope(nodeid)
        return "spark" if file.startswith(SPARK) else file


def pytest_xdist_make_scheduler(config, log):
    return FilesTogether(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """What collecting makes lives as long as the run: the garbage collector never looks at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item):
    if item.nodeid.startswith(SLOW):
        item.add_marker(pytest.mark.slow)
    if item.nodeid.startswith(MOVED):
        item.add_marker(pytest.mark.moved)
    if item.nodeid.startswith(RESOURCES):
        item.add_marker(pytest.mark.resources)


def pytest_collection_modifyitems(config, items):
    try:
        is_in_turn = turn(config.getoption("--turn"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    late = {item for item in items if not is_in_turn(item.nodeid.partition("::")[0])}
    if late:
        config.hook.pytest_deselected(items=list(late))
        items[:] = [item for item in items if item not in late]
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid):
    return next((n for n, room in enumerate(FIRST) if nodeid.startswith(room)), len(FIRST))


def pytest_terminal_summary(terminalreporter):
    """With --reruns: how tests failed that then passed. Each is a fault of its own."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"failed at first: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


def pytest_addoption(parser):
    parser.addoption(
        "--must-run",
        action="store_true",
        help="fail if all tests of a file were skipped, unless SANDERLING_CI_MAY_SKIP=1",
    )
    parser.addoption(
        "--turn", default="0/1", metavar="N/M", help="only the N-th part of M of the test files"
    )


def pytest_configure(config):
    config.pluginmanager.register(ProcessorTime(), "processor-time")
    if config.getoption("--must-run") and os.environ.get("SANDERLING_CI_MAY_SKIP") != "1":
        config.pluginmanager.register(MustRun(), "must-run")


class MustRun:
    """Fails a run in which a file was skipped as a whole: a target that was asked for and could not
    run is not one that passed."""

    def __init__(self):
        self._skipped = {}
        self._ran = set()

    def pytest_runtest_logreport(self, report):
        file = report.nodeid.partition("::")[0]
        if report.skipped:
            self._skipped[file] = report.longrepr[2]
        elif report.when == "call":
            self._ran.add(file)

    def pytest_sessionfinish(self, session):
        if self._not_run() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter):
        for file, reason in self._not_run().items():
            terminalreporter.write_line(f"NOT RUN {file}: {reason}", red=True)

    def _not_run(self):
        return {file: why for file, why in self._skipped.items() if file not in self._ran}


class TestContext:
    """Makes sockets and keeps them, so that none is collected before it is closed."""

    __test__ = False

    def __init__(self):
        self.context = zmq.Context()
        self.sockets = []

    def socket(self, kind):
        self.sockets.append(self.context.socket(kind))
        return self.sockets[-1]


@pytest.fixture
def patient_clients(monkeypatch):
    """Clients of this process wait for a master as long as a busy machine may take."""
    from agent.client.subscriptions import Notifications
    from agent.client.watches import Rounds

    for waits in (Rounds.open, Rounds.cancel, Notifications.open, Notifications.cancel):
        monkeypatch.setattr(waits, "__defaults__", (float(PATIENCE_MS),))


@pytest.fixture
def context():
    made = TestContext()
    yield made
    made.context.destroy(linger=0)
