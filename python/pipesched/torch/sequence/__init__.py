"""Slices of microbatches: earlier keys and values, and the comparison with the whole."""
