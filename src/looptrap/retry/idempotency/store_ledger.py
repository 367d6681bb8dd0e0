"""A ledger in Redis or Valkey that instances share."""

from __future__ import annotations

import logging
import secrets
from hashlib import blake2b
from importlib.resources import files
from typing import Any

import msgspec

from looptrap.errors import IdempotencyError
from looptrap.retry.idempotency.ledger import (
    LEASE_S,
    RESULT_TTL_S,
    CallInProgress,
    CallLease,
    CallResult,
    CallState,
    call_digest,
    key_reused_error,
)
from looptrap.store.redis import RedisStore

KEY_PREFIX = b"lt:idem:"
SCRIPT = files("looptrap.retry.idempotency").joinpath("ledger.lua").read_bytes()

log = logging.getLogger("looptrap")


class StoreLedger:
    """A ledger for all instances, with keyed digests of arguments, and results as JSON or bytes.

    While the store is unavailable calls are refused: unrecorded, they could be made twice.
    """

    def __init__(
        self,
        store: RedisStore,
        *,
        scope: str = "",
        lease: float = LEASE_S,
        keep: float = RESULT_TTL_S,
    ) -> None:
        """Use a started store; keys of another `scope`, such as a tenant, are separate."""
        self._store = store
        self._scope = scope
        self._lease = _milliseconds(lease)
        self._keep = _milliseconds(keep)
        self._secret = b""

    async def begin(self, key: str, content: bytes) -> CallState:
        """Return the state of a call; raises IdempotencyError for other content under the key."""
        try:
            self._secret = self._secret or await self._store.configuration.secret()
            lease = CallLease(key, call_digest(content, self._secret), secrets.token_bytes(8))
            reply, *more = await self._do(b"begin", lease, self._lease)
        except OSError as error:
            raise IdempotencyError(
                f"the ledger cannot be asked about the key {key!r}: {error}"
            ) from error
        if reply == b"begun":
            return lease
        if reply == b"other":
            raise key_reused_error(key)
        return (
            CallResult(_decode_result(key, more[0]))
            if reply == b"done"
            else CallInProgress(max(0, more[0]) / 1000)
        )

    async def finish(self, lease: CallLease, result: Any) -> None:
        """Store the result of a call."""
        try:
            await self._do(b"finish", lease, self._keep, _encode_result(result))
        except OSError as error:
            # The call was made: an error now would only cause a retry.
            log.error("the result of the call %r could not be stored: %s", lease.key, error)

    async def abandon(self, lease: CallLease) -> None:
        """Forget a failed call, so that it may be made again."""
        try:
            await self._do(b"abandon", lease)
        except OSError as error:
            log.error("the lease of the call %r could not be released: %s", lease.key, error)

    async def _do(self, act: bytes, lease: CallLease, *more: bytes) -> list[Any]:
        scoped = blake2b(self._scope.encode(), digest_size=16, person=b"looptrap-scope").digest()
        name = blake2b(lease.key.encode(), digest_size=20, key=scoped).hexdigest().encode()
        reply: list[Any] = await self._store.configuration.command(
            b"EVAL", KEY_PREFIX + name, act, lease.token, lease.digest, *more, script=SCRIPT
        )
        return reply


def _milliseconds(seconds: float) -> bytes:
    return b"%d" % max(1, round(seconds * 1000))


def _encode_result(result: Any) -> bytes:
    if isinstance(result, bytes):
        return b"b" + result
    try:
        return b"j" + msgspec.json.encode(result)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return b"?"  # records at least that the call was made


def _decode_result(key: str, stored: bytes) -> Any:
    if stored[:1] == b"b":
        return stored[1:]
    if stored[:1] == b"j":
        return msgspec.json.decode(stored[1:])
    raise IdempotencyError(
        f"the call under the key {key!r} was made, but its result was neither JSON nor bytes"
        " and could not be stored"
    )
