"""Costs of schedules: models, systems, profiles, and how layers are divided among stages."""
