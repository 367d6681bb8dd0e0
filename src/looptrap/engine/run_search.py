"""RunSearch: which run a request goes on with, where no link leads there. Pure.

After a compaction the latest round but one is not known; nor is one without an id, once its result
was left out. Then the latest runs of the session are compared. A run that begins like an earlier
one may be its restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from struct import Struct
from typing import NamedTuple

from looptrap.detect.opening import NO_OPENING, Opening, opening_of
from looptrap.detect.remembered_round import RoundRecord, Trait, ends_with_call
from looptrap.detect.round import Round
from looptrap.detect.trajectory import Trajectory
from looptrap.dialect.agent import agent_session_of
from looptrap.dialect.model import Call
from looptrap.engine.run_memory import LatestRun, RunMemory, system_of
from looptrap.engine.run_recorder import RunRecorder, records_in
from looptrap.store.model import Note

MAX_RUNS_OF_SESSION = 8
"""Latest runs of a session that are remembered."""

MAX_COMPARED_ROUNDS = 8
"""Latest rounds by whose calls a run without tool-call ids is known again."""

MAX_FIRST_ROUNDS = 2
"""Latest rounds that are remembered of a run that is first seen with many: these are read anyway,
and more would make the first request of every resumed run slow."""

MAX_OPENING_HISTORY = 60
"""Messages of a request that may be the first one after a compaction or a restart."""

LIVE_S = 900
"""Seconds after its latest request for which a run may go on after a compaction."""

RESTART_S = 120
"""Seconds after the latest request of a run for which a new one that begins alike restarts it."""

RUN_OF_SESSION = Struct("<16s4s4s")
"""A run of a session: its key, and digests of the system prompt and of what it began with."""


class KnownRun(NamedTuple):
    """What is remembered of a run."""

    key: bytes
    records: list[RoundRecord]
    seen: bytes
    """Pairs of call and result that were seen in it."""


class RunSearch:
    """Asks the store for the runs of a session, then for their rounds, and chooses one of them."""

    continued: KnownRun | None = None
    """The run to whose rounds the request adds one."""
    compacted: KnownRun | None = None
    """The run that goes on after a compaction."""
    restarts = 0
    """Where it is neither: runs in a row that began like this one and ended alike."""
    _ending = bytes(4)
    _candidates: Sequence[bytes] = ()
    _compacted: Set[bytes] = frozenset()
    _system = bytes(4)
    _content = bytes(4)
    _latest_run: LatestRun | None = None

    def __init__(
        self,
        memory: RunMemory,
        call: Call,
        trajectory: Trajectory,
        recorder: RunRecorder,
        now: float,
        *,
        may_continue: bool,
    ) -> None:
        """`may_continue` says that a round may be unknown because its result was left out."""
        self._memory = memory
        self._call = call
        self._trajectory = trajectory
        self._recorder = recorder
        self._now = now
        self._may_continue = may_continue
        self._session = call.request.session or agent_session_of(call)
        self._session_key = memory.session_key(call, self._session)
        self._opening_key = memory.opening_key(call)
        self._has_runs = False
        self.recalls: Sequence[bytes] = (self._session_key, self._opening_key)
        """The keys whose values `take` needs next; none when the search is over."""

    def take(self, recalled: Sequence[bytes]) -> None:
        """Take what the store remembers under `recalls`."""
        self.recalls = ()
        if self._has_runs:
            self._choose(recalled)
        else:
            self._has_runs = True
            self._take_runs(*recalled)

    def _take_runs(self, of_session: bytes, of_opening: bytes) -> None:
        # After a compaction or a restart, a request is short.
        is_short = len(self._call.raws) <= MAX_OPENING_HISTORY
        opening = opening_of(self._call) if is_short else NO_OPENING
        runs = self._runs_of(of_session, opening)
        self._candidates = runs if self._compacted or self._may_continue else []
        if opening.is_first and is_beginning(self._trajectory):
            self._latest_run = LatestRun.unpack(of_opening)
        keys = list(self._candidates)
        keys += [self._memory.seen_key(run) for run in self._candidates]
        if self._latest_run is not None:
            keys += self._latest_run.runs
        self.recalls = keys

    def _runs_of(self, of_session: bytes, opening: Opening) -> list[bytes]:
        """Return the latest runs of a session, each once; note which may go on after a compaction.

        Where no session is named, a run that began with the same summary is another one: after each
        compaction it differs.
        """
        self.note_system()
        self._content = self._recorder.digester.digest(opening.content)[:4]
        whole = len(of_session) - len(of_session) % RUN_OF_SESSION.size
        began = {run: entry for run, *entry in RUN_OF_SESSION.iter_unpack(of_session[:whole])}
        runs = {run: content for run, (system, content) in began.items() if system == self._system}
        is_certain = opening.is_sealed or bool(self._session)
        self._compacted = {
            run
            for run, content in runs.items()
            if opening.tells and (is_certain or content != self._content)
        }
        return list(runs)

    def _choose(self, recalled: Sequence[bytes]) -> None:
        """Choose among the candidates by their rounds; else look whether it is a restart."""
        count = len(self._candidates)
        candidates = list(
            zip(self._candidates, recalled[:count], recalled[count : 2 * count], strict=True)
        )
        if self._may_continue:
            # Few runs made the call before: no others need to be compared.
            before = self._recorder.signatures(self._trajectory.latest(2)[1:])[0]
            likely = self._live(one for one in candidates if ends_with_call(one[1], before))
            if likely:
                rounds = self._trajectory.latest(MAX_COMPARED_ROUNDS)
                shown = self._recorder.signatures(rounds[1:])
                continued = [one for one in likely if self._extends(one.records, shown)]
                if len(continued) == 1:
                    self.continued = continued[0]
                    return
        live = self._live(candidates) if self._compacted else []
        if live and _follow_each_other([one.records for one in live]):
            latest = max(live, key=lambda one: one.records[-1].seconds)
            if latest.key in self._compacted:
                self.compacted = latest
                return
        if self._latest_run is not None:
            ended, *others = map(records_in, recalled[2 * count :])
            if ending := self._ending_of(ended):
                latest_before_s = max([one[-1].seconds for one in others if one], default=0)
                self.restarts = self._latest_run.count_restarts(ending, latest_before_s)
                self._ending = ending

    def _live(self, candidates: Iterable[tuple[bytes, bytes, bytes]]) -> list[KnownRun]:
        """Return the runs that sent a request within the last minutes."""
        known = [KnownRun(run, records_in(packed), seen) for run, packed, seen in candidates]
        since = self._now - LIVE_S
        return [one for one in known if one.records and one.records[-1].seconds >= since]

    def _extends(self, records: Sequence[RoundRecord], shown: Sequence[bytes]) -> bool:
        """Return whether a request makes the same latest calls as a run, and then one more."""
        known = [record.signature for record in records[: -len(shown) - 1 : -1]]
        is_longer = len(self._call.raws) > records[-1].messages
        return shown == known and is_longer

    def _ending_of(self, records: Sequence[RoundRecord]) -> bytes:
        """Return how a run ended: in a failure, or in nothing that keeps it from a new start.

        A job that asks the same from time to time is no restart, unless it fails.
        """
        if not records:
            return b""
        last = records[-1]
        if last.total_calls <= sum(len(round_.calls) for round_ in first_rounds(self._trajectory)):
            return b""  # perhaps it runs beside this one
        if last.traits & Trait.FAILED:
            return last.failure
        if self._now - last.seconds > RESTART_S:
            return b""
        content = b"%b%b%d" % (last.signature, last.result, last.total_calls)
        return self._recorder.digester.digest(content)[:4]

    # What to remember

    def note_system(self) -> None:
        """Note the system prompt of the request, by which a later one finds its run."""
        self._system = self._recorder.digester.digest(system_of(self._call))[:4]

    def session_note(self, run: bytes) -> Note:
        """Return the note that a run is one of its session."""
        limit = MAX_RUNS_OF_SESSION * RUN_OF_SESSION.size
        entry = RUN_OF_SESSION.pack(run, self._system, self._content)
        return Note(self._session_key, entry, limit)

    def opening_note(self, run: bytes) -> Note:
        """Return the note that a run is the latest with its first messages."""
        before = self._latest_run.run if self._latest_run is not None else bytes(len(run))
        began = int(self._now) & 0xFFFFFFFF
        latest = LatestRun(run, before, began, self._ending, self.restarts)
        return Note(self._opening_key, latest.pack())


def is_beginning(trajectory: Trajectory) -> bool:
    """Return whether a request shows no more than the first rounds of a run."""
    return len(trajectory.latest(MAX_FIRST_ROUNDS + 1)) <= MAX_FIRST_ROUNDS


def first_rounds(trajectory: Trajectory) -> Sequence[Round]:
    """Return the latest rounds that a request shows, the oldest first."""
    return trajectory.latest(MAX_FIRST_ROUNDS)[::-1]


def _follow_each_other(runs: Sequence[Sequence[RoundRecord]]) -> bool:
    """Return whether only one run was under way at a time: then the latest is the one that goes on.

    Of agents side by side in one session, it is unknown which one was compacted.
    """
    latest = max(runs, key=lambda records: records[-1].seconds)
    others = [records for records in runs if records is not latest]
    return all(records[-1].seconds <= latest[0].seconds for records in others)
