"""The report: its tables, its pictures and its page."""
