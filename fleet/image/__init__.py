"""Images of cards: recipes, layers, and how a file becomes of them that a Pi boots."""
