"""Which masters a master knows, by gossip, and which of them are dead, by leases."""
