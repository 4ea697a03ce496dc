"""Costs of schedules: models, systems, profiles, and the division of layers among stages."""
