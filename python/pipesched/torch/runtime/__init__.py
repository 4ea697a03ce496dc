"""Builds and runs the program of one rank."""
