"""What Looptrap costs: ratios of things measured in one run, never bare times."""
