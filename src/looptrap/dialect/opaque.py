"""Calls whose bodies are not read: judged by their bytes, and charged by their size."""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import blake2b

import msgspec

from looptrap.dialect.content import MAX_PATCHED_BYTES, UNREADABLE, model_in_path, raw_message
from looptrap.dialect.model import Call, DialectName, Request
from looptrap.dialect.openai_chat import read_message

_BOUNDARY = re.compile(rb'boundary="?([^";,\s]{1,128})', re.IGNORECASE)


class _Body(msgspec.Struct, gc=False):
    model: str | None = None


_decode = msgspec.json.Decoder(_Body).decode


def read(request: Request, dialect: DialectName) -> Call:
    """Return a call with one message: the digest of its body, equal for equal bodies."""
    body, model = request.body, model_in_path(request.path)
    # A form's boundary is another one each time, whatever the form says.
    kind = request.header(b"content-type") or b""
    if kind and (boundary := _BOUNDARY.search(kind)):
        body = body.replace(boundary[1], b"")
    elif len(body) <= MAX_PATCHED_BYTES:
        with suppress(*UNREADABLE):
            model = _decode(body).model or model
    text = f'"[body {blake2b(body, digest_size=16).hexdigest()}]"'
    return Call(
        request,
        dialect,
        model=model,
        opaque=True,
        raws=[raw_message(b"user", text.encode())],
        read=read_message,
    )
