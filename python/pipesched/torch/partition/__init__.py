"""Cuts a model into the stages of a schedule, and finds which of them a rank holds."""
