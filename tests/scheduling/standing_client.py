"""What a client does in the models of watches: it takes each round once, and acknowledges."""

from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from agent.wire.standing import Acknowledge, Watching


class StandingClient(RuleBasedStateMachine):
    """The client of one watch, `w`. A machine has `to_client` and `to_master`, what is under way;
    `received`, the rounds that the client has; `acknowledged`; and `state` and `word`, what it was
    told of its watch last."""

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
