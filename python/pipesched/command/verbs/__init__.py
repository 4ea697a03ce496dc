"""One module per verb, and what only one verb does."""
