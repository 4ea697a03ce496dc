"""Why a plan is the best, in sentences and tables."""
