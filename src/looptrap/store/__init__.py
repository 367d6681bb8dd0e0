"""Who counts: stores record hits, keep accounts, remember cooldowns; they decide no verdict.

model    Hit, Count, Trip, Charge, Balance, Settlement, and the Store contract
memory   counts inside this process
account  what is spent and reserved inside this process
shelf    keys that end in the order in which they were put
redis    counts in a Redis or Valkey, for all instances together
"""
