"""Topics, and the worker processes of their processors."""
