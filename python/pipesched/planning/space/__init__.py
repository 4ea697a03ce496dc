"""The configurations that a request leaves to search."""
