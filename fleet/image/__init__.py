"""SD card images: recipes, layers, image assembly, flashing."""
