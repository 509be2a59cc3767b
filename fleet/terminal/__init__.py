"""Terminal output: answers, tables, units and times, fitted to the terminal's width."""
