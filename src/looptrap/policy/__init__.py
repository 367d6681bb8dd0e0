"""What to do about it: rules, policies, verdicts. Pure: no I/O, no clock, no randomness."""
