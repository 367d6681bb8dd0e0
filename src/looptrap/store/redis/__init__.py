"""A store that instances share: Redis, Valkey, or a cluster of either.

store           what a gateway holds
ask             hits, charges, cooldowns and releases, and who gets the answer
batch           the asks of one turn of the loop, as one command
operation       what the script is told, and what it replies
record.lua      the script, which runs inside the server: what is kept under a key,
hit.lua         what is counted,
account.lua     what is spent and reserved,
dispatch.lua    and which operation does what
node            one server: batches to it, and the memory that counts while it is away
alarm           when an answer is overdue
cluster         which server has which slot
configuration   what instances agree on: settings, and the key of all digests
stream          what instances tell each other
connection      commands out, replies in
address         the URL
terms           time-outs and bounds
trouble         errors, counted and told
"""

from looptrap.store.redis.store import RedisStore

__all__ = ["RedisStore"]
