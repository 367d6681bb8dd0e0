"""Is it going in circles? Pure: no I/O, no clock, no randomness."""
