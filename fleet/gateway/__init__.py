"""Access to a gateway: links and tokens, in its folder."""
