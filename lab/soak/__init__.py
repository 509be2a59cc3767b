"""The whole product for hours, and whether it grows or slows down."""
