"""Published measurements beside predictions. README.md lists the studies and how to run them."""
