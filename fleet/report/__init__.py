"""The report: its jobs, its tables, its page."""
