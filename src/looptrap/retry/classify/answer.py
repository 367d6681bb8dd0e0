"""Failed answers: status, headers and as much of the body as there is."""

from __future__ import annotations

from looptrap.retry.classify.header import Headers, refusal, retry_after, should_retry, wanted
from looptrap.retry.classify.status import sort
from looptrap.retry.classify.told import NOTHING, told_by
from looptrap.retry.failure import Failure


def classify_answer(
    status: int, headers: Headers | None = None, body: object = b"", now: float | None = None
) -> Failure | None:
    """Return what an answer's failure means; None for an answer that is none.

    The body may be cut off, no JSON, or decoded already; `now` is in seconds since 1970.
    """
    if status < 400:
        return None
    found = wanted(headers)
    return sort(
        status,
        told_by(body) if body else NOTHING,
        refusal=refusal(found),
        should_retry=should_retry(found),
        retry_after=retry_after(found, now),
    )
