"""Stores record hits, keep accounts, cooldowns and notes; they decide nothing.

model    Hit, Count, Trip, Charge, Balance, Settlement, Note
memory   MemoryStore: counts in this process; what a store promises
account  accounts in this process
note     notes of agent runs in this process
redis/   RedisStore: counts in Redis or Valkey, shared by all instances
"""
