"""The testbed experiment: each policy over a range of rates, real and in virtual time."""
