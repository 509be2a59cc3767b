"""How well the quality checks find faults: on labelled real ones, and on injected ones."""
