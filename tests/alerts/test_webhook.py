"""A webhook: in order, again until the receiver has it, and what ends an attempt for good."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.alerts import inbox_events as i
from agent.alerts.inboxes import Inboxes
from agent.alerts.limits import Limits
from agent.alerts.webhook import Webhook
from agent.alerts.webhook_events import (
    AskInbox,
    InboxSaid,
    Post,
    TellOperator,
    WebhookDue,
    WebhookStarted,
)
from agent.runtime.retrying import Answered
from agent.wire.push import (
    AcknowledgeNotifications,
    Gap,
    Lost,
    Notified,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from tests.alerts.disk import Disk
from tests.alerts.samples import FILTER, notification, read_filter
from tests.examples import examples

OK = Answered(204, "204 No Content")
DOWN = Answered(0, "Connection refused")


def made(*, jitter=lambda: 1.0, **options):
    """A webhook that is subscribed, with a lease of 60 s, at 0 s."""
    webhook = Webhook("w", FILTER, jitter=jitter, **options)
    assert webhook.handle(WebhookStarted(), 0.0) == [AskInbox(Subscribe("w", FILTER, True))]
    assert webhook.handle(InboxSaid(Subscribed("w", "open", 0, 60_000.0)), 0.0) == [acknowledged(0)]
    return webhook


def acknowledged(position):
    return AskInbox(AcknowledgeNotifications("w", position))


def notified(position):
    return Notified("w", position, notification(position))


def post(position):
    return Post(f"w_{position}", notified(position))


def came(webhook, *positions, now=1.0):
    return [each for p in positions for each in webhook.handle(InboxSaid(notified(p)), now)]


def test_one_after_the_other_and_acknowledged_when_the_receiver_has_it():
    webhook = made()
    assert came(webhook, 1, 2) == [post(1)]
    assert webhook.handle(OK, 2.0) == [acknowledged(1), post(2)]
    assert webhook.handle(OK, 3.0) == [acknowledged(2)]
    assert webhook.counters["webhook_delivered"] == 2


def test_a_filter_that_nobody_may_fulfil_is_told_once():
    webhook = Webhook("w", FILTER, jitter=lambda: 1.0)
    webhook.handle(WebhookStarted(), 0.0)
    doubted = InboxSaid(Subscribed("w", "open", 0, 60_000.0, "nobody covers b9"))
    told = TellOperator("nobody covers b9")
    assert webhook.handle(doubted, 0.0) == [told, acknowledged(0)]
    assert webhook.handle(doubted, 1.0) == [acknowledged(0)]


def test_pauses_double_up_to_the_longest_and_the_operator_is_told_once():
    webhook = made(longest_pause_s=5.0)
    came(webhook, 1)
    now, pauses, said = 1.0, [], []
    for _ in range(5):
        said += webhook.handle(DOWN, now)
        due = webhook.next_tick
        pauses.append(due - now)
        assert webhook.handle(WebhookDue(), due - 0.01) == []
        assert webhook.handle(WebhookDue(), due) == [post(1)]
        now = due
    assert pauses == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert said == [TellOperator("does not deliver, and will try again: Connection refused")]
    assert not webhook.up
    assert webhook.handle(OK, now) == [TellOperator("delivers again"), acknowledged(1)]
    assert webhook.up


def test_jitter_takes_up_to_half_of_a_pause_away():
    webhook = made(jitter=lambda: 0.0)
    came(webhook, 1)
    webhook.handle(DOWN, 1.0)
    assert webhook.next_tick == 1.5


@pytest.mark.parametrize(("asked", "pause"), [(0.0, 1.0), (30.0, 30.0), (1e6, 3_600.0)])
def test_what_the_receiver_asks_for_is_heeded_within_bounds(asked, pause):
    webhook = made()
    came(webhook, 1)
    webhook.handle(Answered(503, "503 Busy", asked), 1.0)
    assert webhook._retrying.again_s == 1.0 + pause


def test_what_is_refused_is_given_up_after_its_time_and_the_next_has_its_turn():
    webhook = made(give_up_s=10.0)
    came(webhook, 1, 2)
    webhook.handle(Answered(400, "400 Bad Request"), 1.0)
    webhook.handle(WebhookDue(), 2.0)
    webhook.handle(Answered(400, "400 Bad Request"), 10.9)
    webhook.handle(WebhookDue(), 13.0)
    assert webhook.handle(Answered(400, "400 Bad Request"), 13.0) == [
        TellOperator("gave up position 1, refused for too long: 400 Bad Request"),
        acknowledged(1),
        post(2),
    ]
    # The next one has time of its own.
    assert webhook.handle(Answered(400, "400 Bad Request"), 14.0) == []
    assert webhook.counters["webhook_given_up"] == 1


@pytest.mark.parametrize("status", [0, 301, 408, 425, 429, 500, 503])
def test_a_receiver_that_is_down_costs_nothing_but_time(status):
    webhook = made(give_up_s=10.0)
    came(webhook, 1)
    for now in (1.0, 1e4, 1e6):
        webhook.handle(Answered(status, "no"), now)
        assert webhook.handle(WebhookDue(), now + 1e4)[-1] == post(1)
    assert webhook.counters["webhook_given_up"] == 0


def test_gone_ends_it():
    webhook = made()
    came(webhook, 1, 2)
    ending, told = webhook.handle(Answered(410, "410 Gone"), 2.0)
    assert ending == AskInbox(Unsubscribe("w"))
    assert "410 Gone" in told.line
    assert (webhook.next_tick, webhook.up) == (None, False)
    assert came(webhook, 3) == []


def test_the_inbox_hears_of_it_while_nothing_comes():
    webhook = made()
    assert webhook.next_tick == 20.0
    assert webhook.handle(WebhookDue(), 20.0) == [acknowledged(0)]
    assert webhook.next_tick == 40.0


def test_a_subscription_that_the_inbox_does_not_know_any_more_is_made_again():
    webhook = made()
    came(webhook, 1, 2)
    unknown = InboxSaid(Subscribed("w", "unknown"))
    assert webhook.handle(unknown, 2.0) == [AskInbox(Subscribe("w", FILTER, True))]
    # What is under way is not posted twice.
    assert webhook.handle(OK, 3.0) == []
    assert webhook.handle(InboxSaid(Subscribed("w", "open", 0, 60_000.0)), 4.0) == [acknowledged(1)]
    assert came(webhook, 1, 2, now=4.0) == [post(2)]


def test_a_refusal_is_told_once_and_asked_again():
    webhook = Webhook("w", FILTER, jitter=lambda: 1.0)
    webhook.handle(WebhookStarted(), 0.0)
    refused = InboxSaid(Subscribed("w", "refused", message="no room"))
    assert webhook.handle(refused, 0.0) == [TellOperator("no subscription yet: no room")]
    assert webhook.handle(WebhookDue(), 10.0) == [AskInbox(Subscribe("w", FILTER, True))]
    assert webhook.handle(refused, 10.0) == []


def test_a_gap_is_posted_as_one():
    webhook = made()
    gap = Gap("w", 1, 4, Lost("iad1", "h", 1, 4, 4))
    assert webhook.handle(InboxSaid(gap), 1.0) == [Post("w_1_4", gap)]
    assert webhook.handle(OK, 1.0) == [acknowledged(4)]


class Receiving(RuleBasedStateMachine):
    """A webhook on a real inbox of 6 with a window of 3, on the plain disk that survives a kill:
    whatever the receiver does, it gets every position, in order, as a notification or in a gap."""

    @initialize()
    def start(self):
        self.now = 0.0
        self.disk = Disk()
        self.sequence = 0
        self.notified, self.reached = {}, 0  # what the receiver has; all up to there
        self.begin()

    def begin(self):
        limits = Limits(most=6, window=3, most_remembered=8, lease_s=60.0, expire_s=1e9)
        self.inboxes = Inboxes(read_filter, limits)
        self.under_way = None
        self.said = []
        self.inboxes.restore(self.disk.load()[1], self.now)
        self.webhook = Webhook("w", FILTER, jitter=lambda: 0.5, give_up_s=1e9)
        self.has(WebhookStarted())

    def has(self, event):
        for instruction in self.webhook.handle(event, self.now):
            match instruction:
                case AskInbox(Subscribe() as message):
                    self.inbox_has(i.SubscribeArrived("here", "c", message))
                case AskInbox(AcknowledgeNotifications() as message):
                    self.inbox_has(i.AcknowledgeArrived("here", "c", message))
                case Post():
                    assert self.under_way is None
                    self.under_way = instruction

    def inbox_has(self, event):
        for instruction in self.inboxes.handle(event, self.now):
            if isinstance(instruction, i.SendPush):
                self.said.append(instruction.message)
            elif isinstance(instruction, i.InboxChange):
                self.disk.write([instruction])
        # As the master does it: what comes has its turn when all else is done.
        if event is not None and not getattr(self, "draining", False):
            self.draining = True
            while self.said:
                self.has(InboxSaid(self.said.pop(0)))
            self.draining = False

    @rule()
    def comes(self):
        self.sequence += 1
        [name] = [str(number) for number in self.disk.subscriptions]
        self.inbox_has(i.ContentArrived((name,), notification(self.sequence)))

    @precondition(lambda self: self.under_way)
    @rule(heard=st.booleans(), status=st.sampled_from([0, 400, 500]))
    def fails(self, heard, status):
        """The receiver may have it all the same."""
        if heard:
            self.hear(self.under_way)
        self.under_way = None
        self.has(Answered(status, "no"))

    @precondition(lambda self: self.under_way)
    @rule()
    def arrives(self):
        post, self.under_way = self.under_way, None
        self.hear(post)
        self.has(OK)

    def hear(self, post):
        message = post.message
        first = message.first if isinstance(message, Gap) else message.position
        last = message.last if isinstance(message, Gap) else message.position
        assert first <= self.reached + 1, "a position is missing"
        if isinstance(message, Notified):
            assert post.id == f"w_{first}"
            before = self.notified.setdefault(post.id, message.notification)
            assert before == message.notification
        self.reached = max(self.reached, last)

    @rule(seconds=st.sampled_from([0.5, 3.0, 25.0, 200.0]))
    def time_passes(self, seconds):
        """A long time at once: the lease ends, too."""
        self.now += seconds
        if self.inboxes.next_tick <= self.now:
            self.inbox_has(i.InboxesDue())
        if self.webhook.next_tick <= self.now:
            self.has(WebhookDue())

    @rule(heard=st.booleans())
    def killed(self, heard):
        if self.under_way and heard:
            self.hear(self.under_way)
        self.begin()

    @invariant()
    def consistent(self):
        if hasattr(self, "webhook"):
            self.webhook.check_invariants()
            self.inboxes.check_invariants()

    def teardown(self):
        """All is well again: everything arrives."""
        if not hasattr(self, "webhook"):
            return
        for _ in range(4 * self.sequence + 20):
            self.time_passes(25.0)
            while self.under_way:
                self.arrives()
        assert self.reached == self.sequence
        assert self.inboxes.waiting == 0


TestReceiving = Receiving.TestCase
TestReceiving.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)
