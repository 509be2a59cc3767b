"""What is printed: answers, tables, units and times, fitted to a terminal's width."""
