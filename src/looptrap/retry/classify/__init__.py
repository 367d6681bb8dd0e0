"""What a failure means, whoever tells of it.

`raised`       an exception of an SDK, of an HTTP library or of Python → `classify`
`answer`       status, headers and body of an answer → `classify_answer`
`event`        an error inside a stream that began with 200 → `classify_event`
`tool`         a tool's exit code or status → `classify_tool`
`classifiers`  own classifiers, asked before `classify`

Underneath: `told` reads what an error body says, `code` knows the providers' words, `status` sorts
by them and by the status, `header` reads Retry-After; `library` knows exceptions by their names.
No vendor's package is imported: exceptions are told by the names of their classes.
"""

from looptrap.retry.classify.exception import (
    DEFAULT_CLASSIFIERS,
    Classifier,
    Classifiers,
    classify,
    classify_tool,
)
from looptrap.retry.classify.response import classify_answer, classify_event, retry_after_of

__all__ = [
    "DEFAULT_CLASSIFIERS",
    "Classifier",
    "Classifiers",
    "classify",
    "classify_answer",
    "classify_event",
    "classify_tool",
    "retry_after_of",
]
