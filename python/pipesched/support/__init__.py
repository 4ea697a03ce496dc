"""Errors of arguments, options with their names, texts, files and numbers that people write."""
