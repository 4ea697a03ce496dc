"""Bounds on configurations, and the search for the best of them."""
