"""What a master keeps on its disk."""
