"""Messages between stages, and the device that they go to."""
