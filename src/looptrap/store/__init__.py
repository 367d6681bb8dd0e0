"""Stores record hits, keep accounts and cooldowns; they decide nothing.

model    Hit, Count, Trip, Charge, Balance, Settlement, and the Store contract
memory   MemoryStore: counts in this process
account  accounts in this process
redis/   RedisStore: counts in Redis or Valkey, shared by all instances
"""
