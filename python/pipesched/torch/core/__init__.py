"""Errors, values, waits, process groups and batches, which all packages use."""
