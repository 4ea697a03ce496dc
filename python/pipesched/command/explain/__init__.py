"""Rows of answers, and the causes of changes: assumptions, bands, order, memory, slices, heads."""
