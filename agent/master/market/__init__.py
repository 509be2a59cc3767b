"""Services of several IADs: the market's messages, pods, scaling."""
