"""What Looptrap costs: ratios of measurements of one run, never absolute times."""
