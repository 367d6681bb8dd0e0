"""What is answered by what does not say so itself: errors, alerts, kill switches, what if."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from looptrap.admin.history import Iso
from looptrap.replay.comparison import Counts, Fate


class ProblemShown(TypedDict):
    """One mistake in what was sent, and where it is."""

    place: str
    message: str


class ErrorTold(TypedDict):
    """A code for programs and a sentence for people."""

    code: str
    message: str
    problems: NotRequired[list[ProblemShown]]
    project: NotRequired[Any]
    tool: NotRequired[Any]


class Error(TypedDict):
    """Why something was not answered or not done."""

    error: ErrorTold


class ChannelShown(TypedDict):
    """A channel through which people hear, and its latest letters by state."""

    name: str
    kind: Literal["webhook", "slack", "apprise"]
    to: str
    events: list[str]
    projects: list[str]
    pending: int
    delivered: int
    dead: int
    attempts: int


class LettersCounted(TypedDict):
    """All letters by state."""

    pending: int
    delivered: int
    dead: int


class Channels(TypedDict):
    """All channels, and how they are doing."""

    channels: list[ChannelShown]
    letters: LettersCounted


class LetterShown(TypedDict):
    """An event on its way through one channel."""

    event: str
    name: str
    title: str
    incident: str | None
    channel: str
    state: Literal["pending", "delivered", "dead"]
    time: Iso
    created: Iso
    due: Iso | None
    ended: Iso | None
    attempts: int
    error: str | None


class Letters(TypedDict):
    """A page of letters, the newest first."""

    letters: list[LetterShown]
    next: str | None


class TrialShown(TypedDict):
    """Whether a test went through a channel."""

    channel: str
    ok: bool
    error: str | None


class Trials(TypedDict):
    """How the test went, channel by channel."""

    channels: list[TrialShown]


class Resent(TypedDict):
    """How many dead letters are tried anew."""

    resent: int


class SwitchShown(TypedDict):
    """A kill switch: whom it refuses, why, and until when."""

    origin: Literal["file", "run_time"]
    id: str | None
    match: dict[str, str]
    reason: str
    created: NotRequired[Iso]
    expires: NotRequired[Iso]
    path_exact: NotRequired[str]
    path_prefix: NotRequired[str]


class Switches(TypedDict):
    """The kill switches of the file, and those set at run time that are in force."""

    kill_switches: list[SwitchShown]


class SwitchSet(SwitchShown):
    """The kill switch that was set; `pending` while only this instance can know of it."""

    pending: bool
    warnings: NotRequired[list[str]]


class SwitchEnded(TypedDict):
    """That a kill switch was ended."""

    ended: bool
    pending: bool


class Released(TypedDict):
    """Whether a fingerprint was known, or how many of an incident or a caller were."""

    released: bool | int
    fingerprints: NotRequired[list[str]]


# One of its names is a word of the language.
CapturedShown = TypedDict(
    "CapturedShown",
    {"calls": int, "runs": int, "skipped": int, "from": Iso, "until": Iso},
)


class ChangedShown(TypedDict):
    """A run of which the rules of now and the others make something else."""

    run: str
    began: Iso
    model: str
    project: str
    calls: int
    now: Fate
    then: Fate


class WhatIf(TypedDict):
    """What the rules of now, and others, make of the same captured calls."""

    captured: CapturedShown
    now: Counts
    then: Counts
    changed_runs: int
    changed: list[ChangedShown]
    limits: list[str]
    config: str
    command: str | None
