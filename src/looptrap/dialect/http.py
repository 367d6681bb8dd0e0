"""Any other HTTP request: a path and a body that is not read.

Endpoints of no dialect of their own (Bedrock's, images, audio) are answered as OpenAI would.
"""

from __future__ import annotations

from looptrap.dialect.bedrock import BedrockCounts
from looptrap.dialect.dialect import Dialect
from looptrap.dialect.model import Call, Request, Usage
from looptrap.dialect.openai_chat import error_body, fake_error
from looptrap.dialect.openai_responses import ResponsesCounts
from looptrap.dialect.usage import AnswerEnds, read_counts


def read(request: Request, _body: bytes = b"") -> Call:
    """Return the plain view of a request."""
    return Call(request, "http")


def _find_usage(ends: AnswerEnds) -> Usage | None:
    # Pictures and transcripts are counted as responses are, Bedrock's answers not.
    found = ends.last(b'"usage"')
    return read_counts(found, ResponsesCounts) or read_counts(found, BedrockCounts)


DIALECT = Dialect(
    name="http",
    read=read,
    error_body=error_body,
    find_usage=_find_usage,
    fake_error=fake_error,
)
