"""State under the names of the whole model, and its files."""
