"""The report: Spark jobs, tables, HTML page."""
