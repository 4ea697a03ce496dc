"""Rows of answers, and what moves them: assumptions, bands, order, memory, slices, heads."""
