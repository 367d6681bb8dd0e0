"""What a mutating call is told from others by: a digest, never the arguments themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from looptrap.call.content import canonical
from looptrap.detect.canonical import join
from looptrap.errors import IdempotencyError


def content_of(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Return a call in canonical form; the order of keywords makes no difference."""
    try:
        return join([name, canonical([list(args), dict(kwargs)])])
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise IdempotencyError(
            f"{name}: its arguments cannot be compared, since they are not JSON ({error});"
            " name what tells its calls apart: @mutating(compare=…)"
        ) from None


def digest_of(content: bytes, secret: bytes = b"") -> bytes:
    """Return what is kept of a call."""
    return blake2b(content, digest_size=16, key=secret[:64], person=b"looptrap-idem").digest()
