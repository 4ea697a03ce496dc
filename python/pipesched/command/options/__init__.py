"""Options and arguments of verbs: defined, read and checked."""
