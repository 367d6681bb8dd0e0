"""Planning: the store queries for a call, and the evidence in its history. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from looptrap.detect import near
from looptrap.detect.fingerprint import Fingerprint, conversation_opening, fingerprint_key
from looptrap.detect.harness import ComesAfterPause, HasGrown
from looptrap.detect.signals.signal import Evidence
from looptrap.detect.trajectory import RunTrajectory, Trajectory
from looptrap.detect.window import Window, WindowKind
from looptrap.dialect.model import Call
from looptrap.engine.model import HistoryFinding, Plan, PredecessorQuery
from looptrap.policy.rule import ToolRule
from looptrap.policy.watch import CountingWatch, HistoryWatch
from looptrap.store.model import Count, Hit

HISTORY_WINDOW = Window(3_600.0, WindowKind.REFRESHED)
"""How long refused histories and progress tokens are remembered."""

MAX_PROGRESS_TOKENS = 20
"""Progress tokens that count in one session, and in all sessions with the same opening: otherwise
a new session with every request would reset the history with every request."""

NO_TOOLS: frozenset[str] = frozenset()


def count(plan: Plan, watch: CountingWatch, content: bytes) -> None:
    """Plan to count a call for one watch."""
    key = watch.fingerprint.key(plan.call, content)
    plan.hits.append(Hit(key, watch.rule.window))
    plan.watches.append(watch)


def count_near(plan: Plan, watch: CountingWatch, content: bytes) -> None:
    """Plan to count a call, and to query the predecessors of its prompt."""
    start, window = near.prompt_start(content), watch.rule.window
    if start < 0:
        count(plan, watch, content)
        return
    key, end_key = watch.fingerprint.keys(
        plan.call, content[:start], content[start:], near.prompt_end(content)
    )
    mark = near.mark(len(content) - start, key)
    plan.hits += (Hit(key, window), Hit(end_key, window, mark))
    plan.watches += (watch, watch)  # the second hit counts nothing, and so is never judged
    plan.predecessor_queries = (
        *plan.predecessor_queries,
        PredecessorQuery(watch, content, len(plan.hits) - 1),
    )
    plan.follows = True


def take_off_continued(plan: Plan, place: int) -> None:
    """Plan to take the call before this one off its streaks: `place` is where its answer stands.

    Equal runs begin with equal calls; only those that nothing follows are repeats.
    """
    call, before = plan.call, None
    for watch, hit in list(zip(plan.watches, plan.hits, strict=True)):
        if hit.window.kind is not WindowKind.STREAK or hit.mark:
            continue
        assert isinstance(watch, CountingWatch)  # only these are planned so far
        if before is None:
            before = replace(call, raws=call.raws[:place], sizes=None, _messages=None, _tail=None)
        content = watch.content(before)
        if content is not None and (key := watch.fingerprint.key(call, content)) != hit.key:
            plan.hits.append(Hit(key, hit.window, continues=True))


def take_off_itself(plan: Plan) -> None:
    """Plan to take a call off its own streaks: then it is a repeat only after many equal ones."""
    own = [hit for hit in plan.hits if hit.window.kind is WindowKind.STREAK and not hit.mark]
    plan.hits += [Hit(hit.key, hit.window, continues=True) for hit in own]


def read(
    plan: Plan,
    watches: Sequence[HistoryWatch],
    tools: Mapping[str, ToolRule],
    limit: int,
    comes_after_pause: ComesAfterPause,
) -> None:
    """Read the latest `limit` rounds of the history, and plan to query earlier refusals."""
    search(plan, watches, tools, history_of(plan.call, tools, limit, comes_after_pause))


def history_of(
    call: Call,
    tools: Mapping[str, ToolRule],
    limit: int,
    comes_after_pause: ComesAfterPause,
    has_grown: HasGrown | None = None,
) -> Trajectory:
    """Return the latest `limit` rounds of a history, without those of exempt tools."""
    exempt = frozenset(name for name, rule in tools.items() if rule.exempt) if tools else NO_TOOLS
    return Trajectory(call, limit, exempt, comes_after_pause, has_grown)


def search(
    plan: Plan,
    watches: Sequence[HistoryWatch],
    tools: Mapping[str, ToolRule],
    trajectory: Trajectory,
) -> None:
    """Search a trajectory for evidence, and plan to query earlier refusals."""
    found = []
    plan.trajectory = trajectory
    for watch, evidence, key, _ in _find_evidence(plan.call, watches, tools, trajectory):
        place = -1
        if watch.ladder.at(evidence.count).refuses:
            place = len(plan.hits)
            run_key = watch.fingerprint.key(plan.call, _run_of(plan.call))
            plan.hits += [
                Hit(key, HISTORY_WINDOW),
                Hit(run_key, HISTORY_WINDOW, length_mark(trajectory.length)),
            ]
        found.append(HistoryFinding(watch, evidence, key, place))
    plan.findings = found


def length_mark(length: int) -> bytes:
    """Return what the store remembers of a refused history: its number of messages."""
    return length.to_bytes(8)


def _run_of(call: Call) -> bytes:
    """Return the content that all refused histories of one run share."""
    session = call.request.session.encode("utf-8", "surrogatepass")
    return b"refused\xfe%b\xfe%b" % (session, conversation_opening(call))


def release(fingerprint: str) -> tuple[bytes, Sequence[Hit]]:
    """Return the key that a fingerprint names, and what to hit after its release.

    A history is then as if its cooldown were over: the next call is the probe.
    """
    key, is_history = fingerprint_key(fingerprint)
    return key, [Hit(key, HISTORY_WINDOW)] if is_history else []


def await_progress(plan: Plan, fingerprint: Fingerprint, across: Fingerprint) -> None:
    """Plan to query since when the application reports progress; the history is read later.

    `fingerprint` is of one session, `across` of all sessions of the caller.
    """
    call = plan.call
    token = call.request.progress.encode("utf-8", "surrogatepass")
    opening = b"".join(call.raws[:2])
    session = b"" if call.request.session else opening
    plan.progress_index = len(plan.hits)
    plan.follows = True
    plan.hits += [
        Hit(fingerprint.key(call, b"%b\xfe%b" % (session, token)), HISTORY_WINDOW),
        Hit(fingerprint.key(call, session), HISTORY_WINDOW, fingerprint.key(call, token)),
        Hit(across.key(call, opening), HISTORY_WINDOW, fingerprint.key(call, b"")),
    ]


def rounds_since_progress(plan: Plan, counts: Sequence[Count], limit: int) -> int:
    """Return how many rounds there are since the application reported progress.

    Its token came with one request more than there were rounds since. With too many tokens in a
    session, or in sessions that begin alike, progress is ignored: then up to `limit` rounds count.
    """
    with_token, in_session, in_opening = counts[plan.progress_index : plan.progress_index + 3]
    if max(len(in_session.marks), len(in_opening.marks)) >= MAX_PROGRESS_TOKENS:
        return limit
    return min(max(with_token.hits - 1, 0), limit)


def predecessor(plan: Plan, query: PredecessorQuery, marks: Sequence[bytes]) -> None:
    """Plan to count the call for an earlier prompt that it contains, if there is one."""
    watch, content, place = query
    end_hit = plan.hits[place]
    if min(marks) >= end_hit.mark[: near.LENGTH_BYTES]:
        return  # none is shorter
    key_of = watch.fingerprint.key
    found = near.contained(content, marks, lambda prompt: key_of(plan.call, prompt))
    if found is not None:
        plan.predecessors = [*plan.predecessors, (watch, len(plan.hits))]
        # The earlier prompt is hit again, so that it outlasts those that contain it.
        plan.hits += [
            Hit(near.key_in(found), end_hit.window),
            Hit(end_hit.key, end_hit.window, found),
        ]


def _find_evidence(
    call: Call,
    watches: Sequence[HistoryWatch],
    tools: Mapping[str, ToolRule],
    trajectory: Trajectory,
) -> Iterator[HistoryFinding]:
    """Yield the evidence that reaches a threshold; none in a part of a history."""
    newest = trajectory.newest
    if newest is None and not trajectory.stale_turns:
        return
    if call.chain and not isinstance(trajectory, RunTrajectory):
        return
    names = newest.names if newest is not None else NO_TOOLS
    tool = next(iter(names)) if tools and len(names) == 1 else ""
    has_news: bool | None = None  # None until needed
    for general in watches:
        if general.signal.ignores_news:
            has_news = trajectory.has_news if has_news is None else has_news
            if has_news:
                continue
        watch = general.by_tool.get(tool, general) if tool else general
        evidence = watch.signal(trajectory)
        if evidence is not None and evidence.count >= watch.ladder.first:
            content = trajectory.fingerprint_content([evidence.signal, str(evidence.count)])
            key = watch.fingerprint.key(call, content)
            yield HistoryFinding(watch, _with_source(evidence, trajectory), key, -1)


def _with_source(evidence: Evidence, trajectory: Trajectory) -> Evidence:
    """Return evidence that says, where most of it is remembered, what the request shows of it."""
    if not isinstance(trajectory, RunTrajectory) or evidence.signal == "compaction":
        return evidence
    shown = trajectory.count_shown(evidence.ago + 1)
    if shown > evidence.ago:
        return evidence
    latest = "the latest round" if shown == 1 else f"the latest {shown} rounds"
    source = f"this request shows {latest}" if shown else "the provider keeps the history"
    return replace(evidence, what=f"{evidence.what}; {source}")
