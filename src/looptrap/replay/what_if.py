"""What if: the current rules and others, compared on captured calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from shlex import quote

import msgspec

from looptrap.errors import CallError
from looptrap.policy.action import Action
from looptrap.policy.rule import ANSWERS
from looptrap.replay.capture import CAPTURE_GLOB, CapturedRun, CaptureReplayer, CaptureSurvey
from looptrap.replay.judge import RunResult
from looptrap.replay.recorded_run import iter_lines
from looptrap.replay.replay import ReplaySummary, TopItems
from looptrap.replay.ruleset import Ruleset
from looptrap.schema.wording import listed

MAX_CHANGED_RUNS = 100
"""Runs with different outcomes that are listed."""


class RulesetCounts(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The totals of one ruleset, as `looptrap replay` prints them."""

    flagged_runs: int
    warned_runs: int
    """Those with an action but no refusal …"""
    refused_runs: int
    """… and those with a refused call."""
    saved_calls: int
    saved_tokens: int
    actions: dict[str, int]
    """Flagged runs by their severest verdict …"""
    rules: dict[str, int]
    """… by its rule …"""
    signals: dict[str, int]
    """… and by its signal."""

    @classmethod
    def of(cls, summary: ReplaySummary) -> RulesetCounts:
        """Return the totals of a summary."""
        refused = sum(number for action, number in summary.actions.items() if action.refuses)
        return cls(
            flagged_runs=summary.flagged_runs,
            warned_runs=summary.flagged_runs - refused,
            refused_runs=refused,
            saved_calls=summary.saved_calls,
            saved_tokens=summary.saved_tokens,
            actions={one.value: runs for one in Action if (runs := summary.actions[one])},
            rules=dict(summary.rules.most_common()),
            signals=dict(summary.signals.most_common()),
        )


class RunOutcome(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a run."""

    verdict: Action
    rule: str | None
    at: int | None
    """The request, counted from 0, that first got the verdict."""
    saved_calls: int

    @classmethod
    def of(cls, result: RunResult) -> RunOutcome:
        """Return the outcome in a result."""
        at = getattr(result.first, result.verdict.value, None)
        return cls(result.verdict, result.rule, at, result.saved_calls)


class ChangedRun(msgspec.Struct, frozen=True, gc=False):
    """A run with different outcomes under the two rulesets."""

    run: str
    began: float
    model: str
    project: str
    calls: int
    now: RunOutcome
    then: RunOutcome

    @property
    def weight(self) -> tuple[bool, int, int]:
        """How much it matters: by refusal, by severity, by calls saved."""
        now, then = self.now.verdict, self.then.verdict
        return (
            now.refuses != then.refuses,
            abs(now.severity - then.severity),
            abs(self.now.saved_calls - self.then.saved_calls),
        )


class RulesetComparison:
    """Replays captures under two rulesets, and collects the differences."""

    def __init__(self, now: Ruleset, then: Ruleset, since: float = 0.0) -> None:
        self.now, self.then = ReplaySummary(), ReplaySummary()
        self.skipped = 0
        """Lines that are not captured calls."""
        self.changed_runs = 0
        self.changed: TopItems[ChangedRun] = TopItems(MAX_CHANGED_RUNS)
        """The changed runs, the most important first."""
        self._replayers = [CaptureReplayer(rules.enforced(), since=since) for rules in (now, then)]

    @property
    def latest_time(self) -> float:
        """The time of the latest replayed call."""
        return self._replayers[0].now

    def play(self, path: Path, may_continue: Callable[[], bool]) -> bool:
        """Replay a file; return whether completely."""
        try:
            for line in iter_lines(path):
                if not may_continue():
                    return False
                try:
                    for replayer in self._replayers:
                        replayer.play(line.text or b"")
                except CallError:
                    self.skipped += 1
                self._count(replayer.finished_runs() for replayer in self._replayers)
        except OSError:
            pass  # deleted meanwhile, to make room for later ones
        return True

    def finish(self) -> None:
        """End all runs, and count them."""
        self._count(replayer.finish() for replayer in self._replayers)

    def _count(self, finished: Iterable[Iterator[CapturedRun]]) -> None:
        # Both have read the same lines, so the same runs are finished.
        for run, other in zip(*finished, strict=True):
            results = run.result(), other.result()
            self.now.add(results[0])
            self.then.add(results[1])
            now, then = map(RunOutcome.of, results)
            if now != then:
                self.changed_runs += 1
                changed = ChangedRun(
                    run.id, run.began, run.model, run.project, run.calls, now, then
                )
                self.changed.add(changed.weight, changed)


MAX_CALLS = 20_000
DEFAULT_CALLS = 5_000
"""Latest calls that are judged by default: that takes a few seconds."""

TIME_LIMIT_S = 7.0
"""Seconds for judging; later calls are left out."""

FUZZY_SIGNALS = ("near_repeat", "mutating_repeat", "monologue", "idle", "same_error")
"""Signals that find less in digests than in texts."""

UNCAPTURED_WATCHES = ("request", *ANSWERS)
"""Watches of bodies and answers, which captures do not have."""

CONFIG_FILE = "what-if.toml"


class WhatIfRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The captured calls, and both rulesets in plain form."""

    folder: str
    now: dict[str, object]
    then: dict[str, object]
    project: str = ""
    """The project of `then` whose settings change; empty for all calls …"""
    settings: dict[str, object] | None = None
    """… and these settings; None where neither changes."""
    since: float = 0.0
    limit: int = DEFAULT_CALLS
    seconds: float = TIME_LIMIT_S


class WhatIfReport(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison of both rulesets on the same calls."""

    calls: int
    runs: int
    skipped: int
    """Lines that are not captured calls."""
    began: float
    ended: float
    now: RulesetCounts
    then: RulesetCounts
    changed_runs: int
    changed: list[ChangedRun]
    limits: list[str]
    """What these numbers do not show, a sentence each."""
    config: str
    """The rules of `then` as a configuration file."""
    command: str | None
    """Prints, with that file, the numbers of `then`; None where not all calls were judged."""


def compare(request: WhatIfRequest, clock: Callable[[], float]) -> WhatIfReport | None:
    """Judge captured calls by both rulesets; None where there are none."""
    deadline = clock() + request.seconds
    survey = CaptureSurvey(Path(request.folder), since=request.since, limit=request.limit)
    if not survey.calls:
        return None
    now, then = Ruleset.read(request.now), Ruleset.read(request.then)
    is_for_all = request.settings is not None and not (request.project and survey.projects)
    if is_for_all:
        [project] = Ruleset.read({"projects": [request.settings]}).projects
        then = then.for_all(project)
    comparison = RulesetComparison(now, then, survey.since)
    is_whole = all(comparison.play(path, lambda: clock() < deadline) for path in survey.files)
    comparison.finish()
    summary = comparison.now
    command = f"looptrap replay {quote(request.folder)}/{CAPTURE_GLOB} --config {CONFIG_FILE}"
    return WhatIfReport(
        calls=summary.calls,
        runs=summary.runs,
        skipped=comparison.skipped,
        began=survey.began,
        ended=survey.ended if is_whole else comparison.latest_time,
        now=RulesetCounts.of(summary),
        then=RulesetCounts.of(comparison.then),
        changed_runs=comparison.changed_runs,
        changed=list(comparison.changed),
        limits=[
            *_cuts(survey, summary.calls, is_whole),
            *_about_project(request, survey, is_for_all),
            *_about_rules(now, then, survey),
        ],
        config=then.toml(),
        command=command if is_whole and not survey.is_cut else None,
    )


def _cuts(survey: CaptureSurvey, judged: int, is_whole: bool) -> Iterator[str]:
    if not is_whole:
        yield f"There was time for {judged:,} of {survey.calls:,} calls, the earliest of them."
    if survey.is_cut:
        yield "There are earlier calls, which were not judged."


def _about_project(
    request: WhatIfRequest, survey: CaptureSurvey, is_for_all: bool
) -> Iterator[str]:
    if not request.project:
        return
    if is_for_all:
        yield (
            "No captured call says of which project it is:"
            f" what is set for {request.project} is applied to all."
        )
    elif request.project not in survey.projects:
        yield f"No captured call is of project {request.project}, so nothing can change."


def _about_rules(now: Ruleset, then: Ruleset, survey: CaptureSurvey) -> Iterator[str]:
    rules = [rule for _, rule in (*now.rules(), *then.rules())]
    near = [rule.name for rule in rules if rule.watch in FUZZY_SIGNALS or rule.similarity == "near"]
    if near and "digests" in survey.forms:
        yield (
            "Calls were captured as digests, which are equal or not, and never alike:"
            f" {_names(near)} may see less than in the calls themselves."
        )
    if unseen := [rule.name for rule in rules if rule.watch in UNCAPTURED_WATCHES]:
        yield f"Bodies and answers are not captured: {_names(unseen)} can find nothing."
    if any(rule.mode == "shadow" for rule in (*now.policies, *then.policies)):
        yield "Policies in shadow mode are counted as if they were enforced."


def _names(rules: list[str]) -> str:
    return listed(list(dict.fromkeys(rules)), "and")
