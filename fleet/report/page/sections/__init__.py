"""The sections of the page, a module each: `section(shown)` gives its text and its pictures."""
