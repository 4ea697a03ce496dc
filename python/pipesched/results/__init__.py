"""Results: reports, batches of configurations, measured steps and disturbances."""
