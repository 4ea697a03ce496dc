"""Published measurements compared with predictions. README.md lists the studies."""
