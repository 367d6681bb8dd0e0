"""Classifies failures.

`exception`  `classify`: an exception of an SDK, of an HTTP library or of Python;
             `classify_tool`: a tool's exit code or status; `Classifiers`: own ones, tried first
`response`   `classify_answer`: status, headers and body of an answer;
             `classify_event`: an error inside a stream that began with 200

No vendor's package is imported: exceptions are recognised by the names of their classes.
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
