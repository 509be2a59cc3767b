"""The process on a Pi: sampling, local history, pods, and the link to the master."""
