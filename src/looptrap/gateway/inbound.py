"""What a request's headers say to the gateway, and which of them the provider gets to see."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import msgspec

from looptrap.call.header import PROGRESS, RETRY_COUNT, SESSION_LIMIT, is_retry, session_of
from looptrap.retry.turn.header import TURN
from looptrap.wire.fields import HOP_BY_HOP, tokens

Field = tuple[bytes, bytes]

NOT_FORWARDED = HOP_BY_HOP | {b"host", b"content-length", b"expect"}
OUR_PREFIX = b"x-looptrap-"

_KEEP, _DROP, _NOTE, _KEEP_AND_NOTE = range(4)

_LISTS = frozenset((b"connection", b"content-encoding"))
"""Headers that may come several times, and then mean all of it together."""

_MOST_NAMES = 4096
"""Header names whose fate is remembered; clients that invent more pay for each anew."""


class Inbound(msgspec.Struct, gc=False):
    """What one pass over a request's headers found."""

    forwarded: list[Field]
    session: str = ""
    request_id: bytes = b""
    is_retry: bool = False
    encoding: bytes = b""
    """The body's content encoding; empty when it is none."""
    progress: str = ""
    session_limit: bytes = b""


class InboundReader:
    """Reads headers in one pass; made anew with the configuration."""

    def __init__(self, session_headers: Sequence[str], *, relay_compressed: bool) -> None:
        self._sessions = tuple(name.lower().encode() for name in session_headers)
        self._fates = dict.fromkeys(NOT_FORWARDED, _DROP)
        self._fates |= dict.fromkeys(self._sessions, _KEEP_AND_NOTE)
        self._fates |= {
            b"connection": _NOTE,
            b"x-request-id": _KEEP_AND_NOTE,
            b"content-encoding": _KEEP_AND_NOTE,
            RETRY_COUNT: _KEEP_AND_NOTE,
            PROGRESS: _NOTE,
            SESSION_LIMIT: _NOTE,
            # The one header of ours that is not for this gateway alone: an agent behind it may be
            # part of the same turn.
            TURN.lower().encode(): _KEEP,
        }
        for name in self._sessions:
            if name.startswith(OUR_PREFIX):
                self._fates[name] = _NOTE
        self._asked: list[Field] = []
        if not relay_compressed:
            # Usage and answers must be readable: the provider is asked for plain bytes.
            self._fates[b"accept-encoding"] = _DROP
            self._asked = [(b"accept-encoding", b"identity")]

    def read(self, headers: Iterable[Field], drop: Container[bytes] = ()) -> Inbound:
        """Return what the headers say; `drop` names those that carried a gateway key."""
        fates = self._fates
        forwarded = self._asked.copy()
        noted: dict[bytes, bytes] = {}
        for field in headers:
            name = field[0]
            fate = fates.get(name)
            if fate is None:
                fate = self._classify(name)
            if fate == _KEEP:
                if not drop or name not in drop:
                    forwarded.append(field)
            elif fate != _DROP:
                value = field[1]
                if noted.setdefault(name, value) is not value and name in _LISTS:
                    noted[name] += b"," + value
                if fate == _KEEP_AND_NOTE and name not in drop:
                    forwarded.append(field)
        inbound = Inbound(forwarded)
        if noted:
            self._note(inbound, noted)
        return inbound

    def _classify(self, name: bytes) -> int:
        fate = _DROP if name.startswith(OUR_PREFIX) else _KEEP
        if len(self._fates) < _MOST_NAMES:
            self._fates[name] = fate
        return fate

    def _note(self, inbound: Inbound, noted: dict[bytes, bytes]) -> None:
        inbound.session = session_of(noted, self._sessions)
        inbound.request_id = noted.get(b"x-request-id", b"")
        inbound.encoding = noted.get(b"content-encoding", b"").lower()
        inbound.is_retry = is_retry(noted)
        inbound.progress = noted.get(PROGRESS, b"").decode("latin-1")
        inbound.session_limit = noted.get(SESSION_LIMIT, b"")
        listed = tokens(noted.get(b"connection", b"")) - {b"", b"close", b"keep-alive"}
        if listed:
            kept = [one for one in inbound.forwarded if one[0] not in listed]
            inbound.forwarded = kept if b"accept-encoding" not in listed else [*self._asked, *kept]
