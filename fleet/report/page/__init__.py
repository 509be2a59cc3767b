"""The HTML page of a report: sections and plots."""
