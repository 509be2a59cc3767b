"""The page of a report: sections, pictures, HTML."""
