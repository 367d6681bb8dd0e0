"""Detectors: what LoopBench asks of one, and how it finds those of others.

A detector is an object with a `name` and a method `new_run() -> Asker`. An asker is called with
each step before it is sent, and returns "allow", "warn" or "refuse". A detector in another
language, or on another machine, answers over HTTP.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib import import_module
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit
from uuid import uuid4

from bench.loops.scenario import START, Asker, Step, Verdict

VERDICTS = ("allow", "warn", "refuse")


class DetectorError(Exception):
    """A detector could not be found, or did not answer as it should."""


@runtime_checkable
class Detector(Protocol):
    """Judges calls of agents."""

    name: str

    def new_run(self) -> Asker:
        """Return an asker that knows of no call yet."""
        ...


@dataclass(frozen=True, slots=True)
class MadeDetector:
    """A detector made of a name and a function that returns a new asker."""

    name: str
    new_run: Callable[[], Asker]


# over HTTP


@dataclass(frozen=True, slots=True)
class HttpDetector:
    """A detector behind a URL, to which each call is posted as JSON."""

    url: str
    timeout: float = 30.0

    @property
    def name(self) -> str:
        return self.url

    def new_run(self) -> Asker:
        """Return an asker with a run id of its own."""
        return _HttpAsker(self.url, self.timeout)


@dataclass(slots=True)
class _HttpAsker:
    """One run: posts calls, and answers too once a reply has asked for them."""

    url: str
    timeout: float
    run: str = field(default_factory=lambda: uuid4().hex)
    reason: str = ""
    _calls: dict[int, int] = field(default_factory=dict)
    _is_told: bool = False
    _connection: HTTPConnection | None = None

    def __call__(self, step: Step) -> Verdict:
        """Post a call; return the verdict of the reply."""
        number = self._calls[id(step)] = len(self._calls)
        reply = self._post(
            {
                "run": self.run,
                "call": number,
                "at": START + step.at,
                "path": step.path,
                "headers": dict(step.headers),
                "caller": step.caller,
                "body": step.body,
            }
        )
        verdict = reply.get("verdict")
        if verdict not in VERDICTS:
            raise DetectorError(
                f"{self.url} replied with the verdict {verdict!r}; allowed are {VERDICTS}"
            )
        self._is_told = self._is_told or reply.get("wants_answers") is True
        self.reason = str(reply.get("reason", ""))
        return verdict

    def answered(self, step: Step, at: float) -> None:
        """Post an answer, if a reply has asked for answers."""
        if self._is_told:
            answer = step.answer.decode(errors="replace")
            call = self._calls[id(step)]
            self._post({"run": self.run, "call": call, "at": START + at, "answer": answer})

    def clock(self) -> float:
        """Return no time: what the detector spends is not known here."""
        return 0.0

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()

    def _post(self, fields: dict[str, Any]) -> dict[str, Any]:
        parts = urlsplit(self.url)
        if self._connection is None:
            kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
            self._connection = kind(parts.netloc, timeout=self.timeout)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            body = json.dumps(fields).encode()
            self._connection.request("POST", target, body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            text = response.read()
        except (OSError, HTTPException) as error:
            raise DetectorError(f"{self.url} did not answer: {error}") from error
        try:
            reply = json.loads(text) if text else {}
        except ValueError as error:
            raise DetectorError(f"{self.url} replied with what is not JSON: {error}") from error
        if response.status >= 400 or not isinstance(reply, dict):
            raise DetectorError(f"{self.url} replied with status {response.status}: {text[:200]!r}")
        return reply


# by name


def load_detector(spec: str) -> Detector:
    """Return the detector at a URL, or at `module:attribute` (an instance, a class, a function)."""
    if spec.startswith(("http://", "https://")):
        return HttpDetector(spec)
    module, colon, attribute = spec.partition(":")
    if not colon:
        raise DetectorError(f"{spec}: a detector is a URL or module:attribute")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise DetectorError(f"{spec}: {error}") from error
    detector = found() if isinstance(found, type) or not hasattr(found, "new_run") else found
    if not isinstance(detector, Detector):
        raise DetectorError(f"{spec}: {detector!r} has no `name` and `new_run()`")
    return detector
