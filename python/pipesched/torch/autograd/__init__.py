"""Forwards, backwards and activations of one stage and microbatch."""
