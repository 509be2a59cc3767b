"""What a home master believes of what other masters answer about its clones."""

from __future__ import annotations

import pytest

from agent.clones.events import TopicEnded
from agent.master.clones.clone_questions import MAX_MOVES, CloneQuestions
from agent.wire.clones import CloneEnded, ClonesResolved, EndClone
from agent.wire.topics import RemoveTopic, TopicReport

DEVICE = "a/n1"
TOPIC = "clone-0123456789abcdef"


class Home:
    """The master of IAD a and its topics; b and c are partners. Everything else is noted."""

    def __init__(self) -> None:
        self.departed = {TOPIC: "b"}
        self.here = {"of-a-client"}
        self.sent: list[tuple[str, EndClone]] = []
        self.removed: list[str] = []
        self.came: list[object] = []
        self.handlers: dict[type, object] = {}
        self.questions = CloneQuestions(
            "a", self, self, self, ("b", "c"), self.came.append, lambda _: (), lambda then: then()
        )

    # Other masters, as `PublicPlane` and `Peers`.

    def takes(self, kind, handler) -> None:
        self.handlers[kind] = handler

    def takes_refusals(self, _prefix, _handler) -> None:
        pass

    def send(self, iad, message) -> bool:
        self.sent.append((iad, message))
        return True

    # Topics, as `TopicPlane`.

    def went(self, name) -> str:
        return "" if name in self.here else self.departed.get(name, "")

    def knows(self, name) -> bool:
        return name in self.here

    def ask(self, then, request) -> None:
        assert isinstance(request, RemoveTopic)
        self.removed.append(request.name)
        self.here.discard(request.name)
        self.departed.pop(request.name, None)
        then(TopicReport(request.id, ok=True))

    # What happens.

    def end(self) -> str:
        self.questions.end(DEVICE, TOPIC)
        return self.sent[-1][1].id

    def answer(self, iad, id_, **told) -> None:
        self.handlers[CloneEnded](iad, CloneEnded(id_, **told), 0.0)


@pytest.fixture
def home():
    return Home()


def test_a_clone_that_is_ended_elsewhere_is_forgotten_here(home):
    home.answer("b", home.end(), topic=TOPIC, ok=True)
    assert home.removed == [TOPIC]
    assert home.came == [TopicEnded(DEVICE, ok=True)]


@pytest.mark.parametrize("told", [{"ok": True}, {"ok": False, "moved": "a"}])
def test_an_answer_ends_no_other_topic_than_the_one_that_was_asked_for(home, told):
    id_ = home.end()
    home.departed["of-a-client"] = "b"
    home.answer("b", id_, topic="of-a-client", **told)
    assert "of-a-client" not in home.removed


def test_a_master_that_was_not_asked_does_not_keep_another_from_answering(home):
    id_ = home.end()
    home.answer("c", id_, topic=TOPIC, ok=True)
    home.handlers[ClonesResolved]("c", ClonesResolved(id_), 0.0)
    assert home.came == []
    home.answer("b", id_, topic=TOPIC, ok=True)
    assert home.came == [TopicEnded(DEVICE, ok=True)]


def test_masters_that_send_each_to_the_other_are_asked_again_later(home):
    home.end()
    while not home.came:
        iad, asked = home.sent[-1]
        home.answer(iad, asked.id, topic=TOPIC, ok=False, moved={"b": "c", "c": "b"}[iad])
        assert len(home.sent) <= 2 * MAX_MOVES
    (ended,) = home.came
    assert not ended.ok


def test_a_clone_that_is_on_its_way_here_is_not_taken_for_ended(home):
    home.here.add(TOPIC)
    home.ask = lambda then, _: then(TopicReport("end", ok=False, message="on its way"))
    home.questions.end(DEVICE, TOPIC)
    assert home.came == [TopicEnded(DEVICE, ok=False, message="on its way")]


def test_a_master_that_left_the_pool_is_not_waited_for_in_silence(home):
    home.departed[TOPIC] = "gone"
    home.questions.end(DEVICE, TOPIC)
    line = "gone, where it lives, is not in this master's pool; give it up: fleet topic remove "
    line += TOPIC
    assert home.came == [TopicEnded(DEVICE, ok=False, message=line)]
    assert home.sent == []
