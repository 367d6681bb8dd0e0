"""What guarded HTTP clients have in common: judging, and what is said of it in the answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from looptrap.answer.answer import Answer
from looptrap.client.keeper import Keeper, is_ours
from looptrap.client.passage import Passage

PROVIDERS = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}
"""How providers are called; others go by the name of their host."""

PATIENCE = 2.0
"""Seconds that whoever closes a client waits for what is kept of incidents."""

A_MOMENT = 0.02

LONGEST_LENGTH = 18
"""Digits of a Content-Length that is believed."""


class Guarded:
    """What both kinds of guarded HTTP clients have in common."""

    _module: Any
    _own: Any
    """The SDK's own client, which does the work."""
    _keeper: Keeper

    def build_request(self, *args: Any, **options: Any) -> Any:
        """Make a request as the SDK's own client would, with its headers and cookies."""
        return self._own.build_request(*args, **options)

    @property
    def is_closed(self) -> bool:
        """Whether the SDK's own client is closed."""
        closed: bool = self._own.is_closed
        return closed

    def _judge(self, request: Any) -> Passage | None:
        """Judge a request, and take from it what is for us alone."""
        try:
            body = request.content
        except RuntimeError:  # a file on its way, which is read as it goes
            body = None
        fields = [(name.lower(), value) for name, value in request.headers.raw]
        for name in {name for name, _ in fields if is_ours(name)}:
            del request.headers[name.decode("latin-1")]
        host = request.url.host
        return self._keeper.judge(
            request.method, request.url.raw_path, fields, body, PROVIDERS.get(host, host)
        )

    def _outgoing(self, request: Any, passage: Passage) -> Any:
        """Return the request as it leaves: one whose answer can be read, nudged if need be."""
        headers = request.headers
        if passage.is_charged:
            headers["accept-encoding"] = "identity"
        if passage.body is None:
            return request
        del headers["content-length"]
        return self._module.Request(
            request.method,
            request.url,
            headers=headers,
            content=passage.body,
            extensions=request.extensions,
        )

    def _answered(self, request: Any, answer: Answer) -> Any:
        """Return an answer of ours as a response."""
        response = self._module.Response(
            answer.status, headers=answer.headers, content=answer.body, request=request
        )
        response.elapsed = timedelta(0)
        return response

    def _begun(self, response: Any, passage: Passage) -> bool:
        """Put the verdict among the headers; say whether the answer is still to come."""
        headers = response.headers
        length = headers.get("content-length", "")
        told = passage.begin(
            response.status_code,
            int(length) if length.isdecimal() and len(length) <= LONGEST_LENGTH else None,
            "content-encoding" in headers,
        )
        for name, value in told:
            headers[name.decode("latin-1")] = value.decode("latin-1")
        if not response.is_closed:
            return True
        passage.take(response.content)  # a hook of the application's has read it already
        passage.end()
        return False

    def _is_awaited(self, error: BaseException) -> bool:
        """Say whether an error is the provider's, and not that nobody waits for it any more."""
        return isinstance(error, Exception) and not isinstance(error, self._module.ReadTimeout)

    def _ended(self, response: Any, passage: Passage) -> None:
        """Say what a complete answer cost."""
        if (cost := passage.cost_header()) is not None:
            name, value = cost
            response.headers[name.decode("latin-1")] = value.decode("latin-1")

    def _is_written(self) -> bool:
        journal = self._keeper.journal
        return journal is None or journal.is_written


def options(own: Any, transport: Any) -> dict[str, Any]:
    """Return what an HTTP client is made of that never opens a connection itself."""
    return {
        "transport": transport,
        "trust_env": False,
        "timeout": own.timeout,
        "follow_redirects": own.follow_redirects,
    }
