"""Pairs of a forward and a backward whose layers run part by part, in turn."""
