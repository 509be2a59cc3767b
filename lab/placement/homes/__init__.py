"""RELOC's experiments: where clients' homes are, what deliveries take, and what that stores."""
