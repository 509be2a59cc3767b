"""The report: one page with its pictures, and the numbers behind each of them."""
