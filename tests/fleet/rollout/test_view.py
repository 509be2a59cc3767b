"""What is said while a deployment goes on."""

from fleet.rollout.events import Confirmed, Failed, Interrupted, RolledBack
from fleet.rollout.view import Lines


def test_ctrl_c_says_for_what_it_waits():
    said = []
    view = Lines(said.append)
    for host, do in (("i/n2", "check"), ("i/n1", "stage"), ("i/n3", "switch")):
        view.begun(host, do)
    view.happened(Confirmed("i/n3"), 1, 3)
    view.happened(Interrupted(), 1, 3)
    assert said[-1] == (
        "interrupted: what is under way comes to its end; again to cut it; "
        "waiting for i/n1 (uploading), i/n2 (checking)"
    )
    for number in range(10, 20):
        view.begun(f"i/n{number}", "gather")
    view.happened(Interrupted(), 1, 3)
    assert said[-1].endswith("i/n13 (looking) and 7 more")


def test_why_a_host_failed_is_told_once_in_the_report():
    said = []
    view = Lines(said.append)
    view.happened(Failed("i/n1", "dead", "no answer"), 1, 3)
    view.happened(Failed("i/n2", "failed", "it does not start", undone=True), 1, 3)
    view.happened(RolledBack("i/n3"), 1, 3)
    view.happened(RolledBack("i/n4", problem="edge.toml: no room"), 1, 3)
    assert said == [
        "i/n1: failed",
        "i/n2: failed, and went back by itself",
        "i/n3: rolled back",
        "i/n4: not quite rolled back",
    ]
