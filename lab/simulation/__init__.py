"""DSSP's simulation of up to 18,000 nodes: Tables V and VI, Fig. 10."""
