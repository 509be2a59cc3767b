"""An agent's log: on a full disk, and with others' words in it."""

import subprocess
import sys

from agent.runtime.console import operator_log

SCRIPT = """
import resource
from agent.runtime.console import operator_log
say = operator_log("sanderling-master iad1")
say("before\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
for _ in range(2_000):
    say("meanwhile\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
say("after\\n")
"""


def test_an_agent_goes_on_while_its_log_cannot_be_written(tmp_path):
    log = tmp_path / "output.log"
    with log.open("wb") as file:
        done = subprocess.run([sys.executable, "-c", SCRIPT], stderr=file, check=False)
    assert done.returncode == 0
    lines = log.read_text().splitlines()
    assert lines[0] == "sanderling-master iad1: before"
    assert lines[-1] == "sanderling-master iad1: after"


def test_a_line_is_one_line_and_nothing_that_a_terminal_obeys(capsys):
    operator_log("gateway")("it says \x1b[2J\x9b1m\nsanderling: all is well\u202e ä\n")
    assert capsys.readouterr().err == "gateway: it says  [2J 1m sanderling: all is well  ä\n"
