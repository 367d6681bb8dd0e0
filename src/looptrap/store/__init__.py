"""Stores record hits, keep accounts and cooldowns; they decide nothing.

model    Hit, Count, Trip, Charge, Balance, Settlement
memory   MemoryStore: counts in this process; what a store promises
account  accounts in this process
redis/   RedisStore: counts in Redis or Valkey, shared by all instances
"""
