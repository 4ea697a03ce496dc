"""Messages between stages, and their device."""
