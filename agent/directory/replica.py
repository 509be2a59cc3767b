"""A read replica of the registration service: follows the leader, answers from its copy.

Pure, like `agent.directory.leader`. Its copy survives outages of the leader, and restarts of its
own. Leases are managed by the leader: an entry stays until the leader removes it.
"""

from __future__ import annotations

from typing import Final

from agent.directory.directory import Directory, Edit, Outcome, contradiction
from agent.directory.requests import answer, denied, refusal
from agent.wire.directory import (
    Changes,
    DirectoryReply,
    DirectoryRequest,
    Discover,
    Follow,
    ListAccounts,
    LookUp,
)
from agent.wire.principals import Sender

# Interval between requests to a leader that does not answer.
PATIENCE_S: Final = 5.0


class ReadReplica:
    """A copy of the leader at the address `primary`, polled every `every_s` seconds.

    One request is in flight at a time, so that no late answer can undo a newer one.
    """

    def __init__(self, directory: Directory, primary: str, *, every_s: float, now: float) -> None:
        self.directory = directory
        self._primary = primary
        self._every_s = every_s
        self._asked = 0
        self._open: str | None = None  # the id of the request
        self._asked_at = now
        # The age of a copy from before a restart is unknown: at least that of the process.
        self._as_of = now
        self.next_due = now

    def age_s(self, now: float) -> float:
        """For how long the copy may have lacked changes."""
        return max(0.0, now - self._as_of)

    def handle(self, request: DirectoryRequest, sender: Sender, now: float) -> Outcome:
        """The reply; there is never an edit."""
        if (refused := refusal(request, sender)) is not None:
            return Outcome(refused)
        if not isinstance(request, Discover | LookUp | ListAccounts):
            text = f"this is a mirror; the primary is {self._primary}"
            return Outcome(denied(request, "read_only", text))
        if not self.directory.epoch:
            text = f"this mirror has no copy yet: {self._primary} has not answered"
            return Outcome(denied(request, "not_ready", text))
        return Outcome(answer(self.directory, request, self.age_s(now)))

    def tick(self, now: float) -> Follow | None:
        """The messages for the leader at `now`."""
        if now < self.next_due:
            return None
        self._asked += 1
        self._open = f"f{self._asked}"
        self._asked_at = now
        self.next_due = now + max(PATIENCE_S, self._every_s)
        return Follow(self._open, self.directory.epoch, self.directory.version)

    def undelivered(self, now: float) -> None:
        """The messages that `tick` returned could not be sent."""
        self._open = None
        self.next_due = now + self._every_s

    def received(self, reply: DirectoryReply, now: float) -> Edit | None:
        """The edit in the leader's reply, to be written and applied; None also for what no leader
        says, such as one whose file is damaged: the copy stays, and its age grows. O(changes)."""
        if self._open is None or reply.id != self._open:
            return None
        self._open = None
        self.next_due = now + self._every_s
        if not isinstance(reply, Changes):
            return None
        edit = Edit(reply.epoch, reply.version, reply.entries, reply.whole)
        if contradiction(edit):
            return None
        if edit.whole or edit.version != self.directory.version:
            return edit
        self._as_of = self._asked_at
        return None

    def applied(self, edit: Edit, _now: float) -> None:
        """The edit is on disk: it takes effect."""
        self.directory.apply(edit)
        self._as_of = self._asked_at
