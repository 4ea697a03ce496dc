"""Sweeps: every combination of the values of some axes, evaluated and kept in a file."""
