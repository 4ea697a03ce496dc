"""Sums and means of gradients and buffers over ranks."""
