"""Who counts: stores record hits and remember cooldowns; they decide nothing.

model    Hit, Count, Trip, and the Store contract
memory   counts inside this process
redis    counts in a Redis or Valkey, for all instances together
"""
