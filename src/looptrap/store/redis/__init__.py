"""RedisStore: a store shared by all instances, in Redis, Valkey or a cluster of either.

store                 RedisStore: what a gateway calls
request               hits, charges, cooldowns, notes, releases, as operations of the script;
                      RequestBatch: those of a loop turn
record.lua            the script, run inside the server: what is stored under a key,
hit.lua, serial.lua   counting,
account.lua           charges and reservations,
note.lua              notes of agent runs,
dispatch.lua          and which operation does what
node                  RedisNode: one server, and the memory that counts while it is away
topology              which server counts: RedisCluster, that of a slot; Sentinels, the primary
shared_configuration  settings that instances share, the digest secret, and streams between them
configure.lua         the script that sets one setting
connection            RedisConnection: commands out, replies in
address               StorePlan: what the URL says
"""

from looptrap.store.redis.store import RedisStore

__all__ = ["RedisStore"]
