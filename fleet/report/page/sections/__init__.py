"""Sections of the page, one module each: `section(shown)` returns its text and plots."""
