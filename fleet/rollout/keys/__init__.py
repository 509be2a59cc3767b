"""Key distribution to hosts: push, rotate, revoke, pin."""
