"""What a client does in the models of watches: it takes each round once, acknowledges, and comes
again over another connection."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from agent.wire.watches import Acknowledge, Watch, Watching


class WatchClient(RuleBasedStateMachine):
    """The client of one `watch`, `w`, over its `connection` of that number. A machine has
    `to_client` and `to_master`, what is under way; `received`, the rounds that the client has;
    `acknowledged`; `state` and `word`, what it was told of its watch last; and `unheard`: its last
    words on a watch that is finished were lost."""

    @property
    def last(self):
        """The last round that the client has; 0: none."""
        return self.received[-1].number if self.received else 0

    @precondition(lambda self: self.to_client)
    @rule()
    def the_client_receives(self):
        message = self.to_client.pop(0)
        if isinstance(message, Watching):
            assert message.state in ("open", "finished"), message
            self.state, self.word = message.state, message.message
            if message.state == "finished":
                self.to_master.append(Acknowledge("w", message.next_round - 1))
        elif message.previous <= self.last < message.number:
            self.received.append(message)

    @precondition(lambda self: self.last > self.acknowledged)
    @rule()
    def the_client_acknowledges(self):
        self.acknowledged = self.last
        self.to_master.append(Acknowledge("w", self.last))

    @rule(lost=st.booleans())
    def the_connection_ends(self, lost):
        self.to_client.clear()
        if lost:
            if self.state == "finished" and self.to_master:
                self.unheard = True
            self.to_master.clear()
            self.ask_again()
        self.connection += 1

    @precondition(lambda self: not any(isinstance(m, Watch) for m in self.to_master))
    @rule()
    def ask_again(self):
        if self.state != "finished":
            fields = {
                f: getattr(self.watch, f) for f in self.watch.__struct_fields__ if f != "after"
            }
            after = self.last if self.state else None
            self.to_master.append(Watch(**fields, after=after))
