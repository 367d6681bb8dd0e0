"""The ids of requests: the client's own, or one made when it is first needed."""

from __future__ import annotations

from itertools import count
from secrets import token_hex

from looptrap.wire.exchange import Exchange


class RequestIds:
    """Makes ids that no other gateway makes, without asking for randomness each time."""

    def __init__(self) -> None:
        self._prefix = token_hex(6).encode()
        self._numbers = count(1)

    def new(self) -> bytes:
        """Return one that nothing has yet."""
        return b"lt-%b-%x" % (self._prefix, next(self._numbers))

    def of(self, exchange: Exchange | None) -> str:
        """Return the id of what never becomes a relay: the client's own, or a new one."""
        sent = dict(exchange.headers) if exchange is not None else {}
        return (sent.get(b"x-request-id") or self.new()).decode("latin-1")
