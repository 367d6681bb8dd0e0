"""One request as the provider received it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from looptrap.call.model import Call, Request
from looptrap.call.read import read


@dataclass(frozen=True, slots=True)
class Received:
    """A request; header names are lower-case, repeated headers joined by commas."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    call: Call
    """The same in neutral form: dialect, model, messages."""

    def json(self) -> Any:
        """Decode the body."""
        return msgspec.json.decode(self.body)

    @classmethod
    def of(
        cls, method: bytes, target: bytes, fields: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> Received:
        """Take in a request as the wire delivers it."""
        headers: dict[str, str] = {}
        for name, value in fields:
            key, text = name.decode("latin-1"), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        path, _, query = target.decode("latin-1").partition("?")
        request = Request(
            method=method.decode("latin-1"), path=path, query=query, headers=fields, body=body
        )
        return cls(request.method, target.decode("latin-1"), headers, body, read(request))
