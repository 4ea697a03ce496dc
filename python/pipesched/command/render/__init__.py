"""Answers as tables, pages, pictures and files."""
