"""A head and an embedding whose vocabulary is divided among the ranks."""
