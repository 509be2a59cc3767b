"""Images: recipes, layers, roots and what is assembled of them."""
