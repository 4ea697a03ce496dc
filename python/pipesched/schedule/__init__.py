"""Schedules: families, rows, programs, transformations and proofs."""
