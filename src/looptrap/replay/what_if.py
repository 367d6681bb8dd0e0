"""What if: what other rules would have made of captured calls, beside those of now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote

import msgspec

from looptrap.policy.rule import ANSWERS
from looptrap.replay.comparison import Changed, Comparison, Counts
from looptrap.replay.ruleset import Ruleset
from looptrap.replay.survey import FILES, Survey
from looptrap.schema.wording import listed

MOST_CALLS = 20_000
CALLS = 5_000
"""So many of the latest are judged where nobody says otherwise: that takes a few seconds."""

SECONDS = 7.0
"""So long calls are judged; what is left then is not."""

LIKENING = ("near_repeat", "mutating_repeat", "monologue", "same_error")
"""Signals that see less in digests than in texts."""

UNCAPTURED = ("request", *ANSWERS)
"""What rules watch that captures do not have: bodies and answers."""

CONFIG_FILE = "what-if.toml"


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls are judged, and by what; rulesets and projects are in plain form."""

    folder: str
    now: dict[str, object]
    then: dict[str, object]
    project: str = ""
    """The project of `then` that is asked about; none where all calls are …"""
    settings: dict[str, object] | None = None
    """… and that project; None where no project is asked about, nor what holds for all."""
    since: float = 0.0
    limit: int = CALLS
    seconds: float = SECONDS


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What both rulesets make of the same calls."""

    calls: int
    runs: int
    skipped: int
    """Lines that are not captured calls."""
    began: float
    ended: float
    now: Counts
    then: Counts
    changed_runs: int
    changed: list[Changed]
    limits: list[str]
    """What these numbers do not tell, a sentence each."""
    config: str
    """The rules of `then` as a configuration file."""
    command: str | None
    """Prints, with that file, the numbers of `then`; None where not all of the calls are judged."""


def compare(asked: Question, clock: Callable[[], float]) -> Compared | None:
    """Judge captured calls by both rulesets; None where there is none."""
    deadline = clock() + asked.seconds
    survey = Survey(Path(asked.folder), since=asked.since, limit=asked.limit)
    if not survey.calls:
        return None
    now, then = Ruleset.read(asked.now), Ruleset.read(asked.then)
    is_for_all = asked.settings is not None and not (asked.project and survey.projects)
    if is_for_all:
        [project] = Ruleset.read({"projects": [asked.settings]}).projects
        then = then.for_all(project)
    comparison = Comparison(now, then, survey.since)
    is_whole = all(comparison.play(path, lambda: clock() < deadline) for path in survey.files)
    comparison.finish()
    summary = comparison.now
    return Compared(
        calls=summary.calls,
        runs=summary.runs,
        skipped=comparison.skipped,
        began=survey.began,
        ended=survey.ended if is_whole else comparison.reached,
        now=Counts.of(summary),
        then=Counts.of(comparison.then),
        changed_runs=comparison.changed_runs,
        changed=comparison.changed(),
        limits=[
            *_cuts(survey, summary.calls, is_whole),
            *_about_project(asked, survey, is_for_all),
            *_about_rules(now, then, survey),
        ],
        config=then.toml(),
        command=_command(asked.folder) if is_whole and not survey.is_cut else None,
    )


def _cuts(survey: Survey, judged: int, is_whole: bool) -> Iterator[str]:
    if not is_whole:
        yield f"There was time for {judged:,} of {survey.calls:,} calls, the earliest of them."
    if survey.is_cut:
        yield "There are earlier calls, which were not judged."


def _about_project(asked: Question, survey: Survey, is_for_all: bool) -> Iterator[str]:
    if not asked.project:
        return
    if is_for_all:
        yield (
            "No captured call says of which project it is:"
            f" what is set for {asked.project} is applied to all."
        )
    elif asked.project not in survey.projects:
        yield f"No captured call is of project {asked.project}, so nothing can change."


def _about_rules(now: Ruleset, then: Ruleset, survey: Survey) -> Iterator[str]:
    rules = [rule for _, rule in (*now.rules(), *then.rules())]
    near = [one.name for one in rules if one.watch in LIKENING or one.similarity == "near"]
    if near and "digests" in survey.forms:
        yield (
            "Calls were captured as digests, which are equal or not, and never alike:"
            f" {_names(near)} may see less than in the calls themselves."
        )
    if unseen := [one.name for one in rules if one.watch in UNCAPTURED]:
        yield f"Bodies and answers are not captured: {_names(unseen)} can find nothing."
    if any(one.mode == "shadow" for one in (*now.policies, *then.policies)):
        yield "Policies in shadow mode are counted as if they were enforced."


def _names(rules: list[str]) -> str:
    return listed(list(dict.fromkeys(rules)), "and")


def _command(folder: str) -> str:
    return f"looptrap replay {quote(folder)}/{FILES} --config {CONFIG_FILE}"
