"""The lake: its schema, what is pulled into it, how it becomes tables, SQL over them."""
