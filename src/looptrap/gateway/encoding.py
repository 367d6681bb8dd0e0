"""Encoded request bodies: decoded for judging only, never for forwarding."""

from __future__ import annotations

import zlib

_WINDOW_BITS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}


def decoded(body: bytes, encoding: bytes, limit: int) -> bytes:
    """Return the body in plain, or as it is where that cannot be had within `limit` bytes.

    Encodings that Python's library does not know, bombs, and bodies with something behind their
    end are judged as the bytes they are.
    """
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        return body
    decoder = zlib.decompressobj(bits)
    try:
        plain = decoder.decompress(body, limit)
    except zlib.error:
        return body
    return plain if decoder.eof and not decoder.unused_data else body
