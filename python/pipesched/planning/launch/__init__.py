"""Proposals as arguments of launchers, scripts and passes."""
