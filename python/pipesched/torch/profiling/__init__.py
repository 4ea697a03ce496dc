"""Recordings, clocks, times and memory of a rank."""
