"""Units that outlive their master: the owner's and its standby's side; state machines."""
