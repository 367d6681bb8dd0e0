"""RunFitting: how a request fits to the run that a store remembers of it. Pure.

As long as a request shows its run whole, its new round is appended to the run, and nothing is
read. Where the request shows less (a history that was trimmed, elided or compacted, or is kept by
the provider), the rounds that are remembered are judged in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from itertools import zip_longest
from struct import Struct
from typing import NamedTuple

from looptrap.detect.call_kind import is_note
from looptrap.detect.canonical import join
from looptrap.detect.opening import NO_OPENING, Opening, opening_of
from looptrap.detect.remembered_round import (
    MAX_REMEMBERED_ROUNDS,
    ROUND_BYTES,
    RoundRecord,
    Trait,
    ends_with_call,
    has_signature,
    records_of,
)
from looptrap.detect.round import Round
from looptrap.detect.signals.unknown_tool import calls_unknown_tool
from looptrap.detect.trajectory import RunTrajectory, Trajectory
from looptrap.dialect.agent import agent_session_of
from looptrap.dialect.model import AnsweredTurn, Call, Message, ToolCall, ToolResult
from looptrap.engine.run_memory import (
    COMPLETE,
    HIDDEN,
    LINK,
    PARTIAL,
    UNDECIDED,
    UNLISTED,
    LatestRun,
    RunLink,
    RunMemory,
    system_of,
)
from looptrap.store.model import Note

PAIR_BYTES = 5
MAX_PAIRS = 200
"""Calls, and pairs of call and result, of the compacted part of a run that are remembered to tell
what is new."""

MAX_RUN_BYTES = MAX_REMEMBERED_ROUNDS * ROUND_BYTES

MIN_TRUSTED_ROUNDS = 20
"""Rounds that must be remembered of a run that was not seen from its beginning, to tell by them
whether a call is new: as many as are searched otherwise."""

MAX_RUNS_OF_SESSION = 8
"""Latest runs of a session that are remembered."""

MAX_COMPARED_ROUNDS = 8
"""Latest rounds by whose calls a run without tool-call ids is known again."""

MAX_FIRST_ROUNDS = 2
"""Latest rounds that are remembered of a run that is first seen with many: these are read anyway,
and more would make the first request of every resumed run slow."""

MAX_BEGINNING_MESSAGES = 7
"""Messages of a request with the first two rounds of a run: most have six."""

MAX_SEGMENT_ROUNDS = 20
"""Latest rounds that are remembered of what a request shows after a compaction."""

LIVE_S = 900
"""Seconds after its latest request for which a run may go on after a compaction."""

MAX_REPEATABLE_MESSAGES = 40
"""Messages after a compaction in which every round is remembered in full."""

RESTART_S = 120
"""Seconds after the latest request of a run for which a new one that begins alike restarts it."""

MAX_SAID_CHARS = 4_096
"""Characters of an answer without calls that is remembered: a longer one is content."""

MAX_SEPARATOR_BYTES = 4
"""Bytes between two messages of a request."""

MAX_ALTERED_BYTES = 16
"""Bytes by which the rest of a request may change from one to the next: counters and times do. More
is taken for results that were left out, or …"""

MAX_MARKED_BYTES = 128
"""… for markers of prompt caches that moved, where there are any."""

_CACHE_MARKER = b'"cache_control"'

MAX_OPENING_HISTORY = 60
"""Messages of a request that may be the first one after a compaction or a restart."""

MAX_PLACEHOLDER_CHARS = 200
"""Characters of a text that stands for a result that was left out."""

_RUN_OF_SESSION = Struct("<16s4s4s")

_NEWS = int(Trait.NEWS)
"""A plain number: Python code combines flags, and that is slow."""

_LiveRun = tuple[bytes, list[RoundRecord], bytes]
"""The key of a run, its records, and the pairs that were seen in it."""


class _Pair(NamedTuple):
    """Digests of a call, and of it with the gist of its result."""

    call: bytes
    gist: bytes


class RunFitting:
    """One request on its way to its run: asks the store, at most three times, then takes notes."""

    # Most calls need few of these: what is set in the class costs nothing.
    run: RunTrajectory | None = None
    """What to judge in place of the history that the request shows; None where it shows all."""
    restarts = 0
    """Runs in a row that began like this one and ended alike."""
    notes: Sequence[Note] = ()
    """What the store is to remember."""
    continues_beginning = False
    """Whether the request shows only the first one or two rounds of a run."""
    link: RunLink | None = None
    """Where the run is now."""
    _link: RunLink | None = None
    _new: Sequence[Round] = ()
    _newest_key = b""
    _before_key = b""
    _has_ids = False
    _session = ""
    _families: Sequence[bytes] = ()
    _candidates: Sequence[bytes] = ()
    _compacted: Set[bytes] = frozenset()
    _entry = bytes(4), bytes(4)
    _may_continue = False
    _latest_run: LatestRun | None = None
    _calls: RoundRecord | None = None
    _results: Sequence[ToolResult] = ()
    _seen = b""

    def __init__(
        self, memory: RunMemory, call: Call, trajectory: Trajectory, now: float, is_local: bool
    ) -> None:
        self._is_local = is_local
        self._digester = memory.digester(is_local)
        self._memory = memory
        self._call = call
        self._trajectory = trajectory
        self._now = now
        # A bound method would refer back to this object: only the collector would free both.
        self._take = RunFitting._take_links
        self.recalls = self._first_recalls()
        """The keys whose values `take` needs next; none when it is done."""

    def _first_recalls(self) -> Sequence[bytes]:
        call, memory = self._call, self._memory
        if call.chain:
            self._take = RunFitting._take_chain
            self._newest_key = memory.chain_key(call, call.chain)
            return (self._newest_key,)
        rounds = self._trajectory.latest(2)
        starts = self._trajectory.starts
        if not rounds or starts.has_other_form or starts.has_courtesies or starts.has_ended:
            return ()  # other forms are shown whole; courtesies and our own words tell nothing
        self._newest_key = memory.link_key(call, rounds[0], self._is_local)
        self._has_ids = bool(rounds[0].random_id)
        if len(rounds) == 1 or len(call.raws) <= MAX_BEGINNING_MESSAGES:
            self.continues_beginning = not starts.has_pages
        if len(rounds) == 1:
            return (self._newest_key, *self._family_keys())
        self._before_key = memory.link_key(call, rounds[1], self._is_local)
        return (self._newest_key, self._before_key)

    def take(self, recalled: Sequence[bytes]) -> None:
        """Take what the store remembers under `recalls`."""
        self.recalls = ()
        self._take(self, recalled)

    # The run of a request that shows rounds

    def _take_links(self, recalled: Sequence[bytes]) -> None:
        newest, *others = recalled
        link = RunLink.unpack(newest) if newest else None
        before = RunLink.unpack(others[0]) if self._before_key and others[0] else None
        # Rounds that are known by their content alone may come again. The round before one that was
        # sent before leads nowhere any more.
        may_be_known = before is None or self._newest_key == self._before_key
        if link is not None and (self._has_ids or (may_be_known and self._is_sent_again(link))):
            self._continue(link, ())
        elif before is not None:
            self._continue(before, self._trajectory.latest(1))
        elif self._trajectory.starts.has_pages:
            self._start_run(self._first_rounds()[-1:], b"")
        elif not self._before_key:
            self._take_families(others)
        elif self._is_resumed():
            self._resume()
        else:
            self._take, self.recalls = RunFitting._take_families, self._family_keys()

    def _is_resumed(self) -> bool:
        """Return whether a run that is not known has a long history: it began somewhere else.

        A run without ids may not be known because its results were left out: then they are short.
        """
        if len(self._call.raws) <= MAX_OPENING_HISTORY:
            return False
        return self._has_ids or len(self._trajectory.latest(2)[1].result) > MAX_PLACEHOLDER_CHARS

    def _resume(self) -> None:
        """Begin to remember a run at its latest round; the rest follows with its next request."""
        call = self._call
        run = self._memory.run_key(call, self._newest_key, self._now, self._is_local)
        self.link = RunLink(run, len(call.raws), len(call.request.body), UNLISTED)
        self.notes = (Note(self._newest_key, self.link.pack()),)

    def _is_sent_again(self, link: RunLink) -> bool:
        """Return whether the request is that of the link, or adds only what is no round."""
        call = self._call
        if len(call.raws) > link.messages:
            return self._trajectory.starts.newest_place < link.messages
        return (len(call.raws), len(call.request.body)) == (link.messages, link.body_bytes)

    def _continue(self, link: RunLink, new: Sequence[Round]) -> None:
        """Continue a known run with its new round, if there is one."""
        self._link, self._new = link, new
        if new and not link.flags & HIDDEN and self._is_whole(link):
            if self._is_local:
                self._take, self.recalls = RunFitting._take_whole, (link.run,)
            else:
                self._add(link, new[0], self._trajectory.is_new_call)
        elif new or link.flags & HIDDEN:
            self._take = RunFitting._take_run
            self.recalls = (link.run, self._memory.seen_key(link.run))

    def _take_whole(self, recalled: Sequence[bytes]) -> None:
        """Add the new round of a run that the request shows whole, by what is known of the run."""
        remembered, link, round_ = recalled[0], self._link, self._new[0]
        assert link is not None
        is_new, signature = False, b""
        if round_.calls:
            signature = self._digester.signature(round_)
            is_new = not has_signature(remembered, signature)
            if link.flags & COMPLETE or len(remembered) >= MIN_TRUSTED_ROUNDS * ROUND_BYTES:
                self._trajectory.is_new_call = is_new
        self._add(link, round_, is_new, signature)

    def _add(self, link: RunLink, round_: Round, is_new: bool, signature: bytes = b"") -> None:
        """Add a round to a run that the request shows whole."""
        call, digester = self._call, self._digester
        messages = len(call.raws)
        count = len(round_.calls)
        total = min(link.total_calls + count, 65_535)
        place = link.segment, link.stale_segments, min(messages, 65_535), total
        # What comes soon after a compaction may come again after the next one.
        is_repeatable = link.segment > 0 and messages <= MAX_REPEATABLE_MESSAGES
        if is_new and not is_repeatable:
            signature = signature or digester.signature(round_)
            packed = digester.pack_brief(
                round_, self._newest_key[-4:], signature, *place, int(self._now)
            )
        else:
            record = self._full_record(round_, self._trajectory.latest(2)[1])
            traits = record.traits | _NEWS
            packed = self._placed(record, traits, link.segment, link.stale_segments, total).pack()
        self.link = RunLink(
            link.run,
            messages,
            len(call.request.body),
            link.flags & ~UNLISTED,
            link.segment,
            link.stale_segments,
            total,
        )
        self.notes = (
            Note(link.run, packed, MAX_RUN_BYTES),
            Note(self._newest_key, self.link.pack()),
            Note(self._before_key, b""),
        )
        if link.flags & UNLISTED:
            self._entry = digester.digest(system_of(call))[:4], bytes(4)
            self.notes += (self._note_of_session(link.run),)

    def _is_whole(self, link: RunLink) -> bool:
        """Return whether a request only adds messages to those of the request before."""
        raws = self._call.raws
        if len(raws) <= link.messages:
            return False
        body_bytes = len(self._call.request.body)
        if not body_bytes:
            return True  # a recorded call, of which only the messages are left
        added = self._call.message_bytes(link.messages)
        altered = body_bytes - link.body_bytes - added
        between = MAX_SEPARATOR_BYTES * (len(raws) - link.messages)
        if -MAX_ALTERED_BYTES <= altered <= MAX_ALTERED_BYTES + between:
            return True
        is_small = -MAX_MARKED_BYTES <= altered <= MAX_MARKED_BYTES
        return is_small and _CACHE_MARKER in self._call.request.body

    def _take_run(self, recalled: Sequence[bytes]) -> None:
        """Judge a run of which the request shows less than is remembered."""
        link = self._link
        assert link is not None
        records = _rounds_in(recalled[0])
        if records and (self._has_ids or self._shows_end_of(records)):
            self._judge_run(link, records, recalled[1])
        else:
            self._start_run(self._new or self._trajectory.latest(1), b"")

    def _shows_end_of(self, records: Sequence[RoundRecord]) -> bool:
        """Return whether the calls before a new round are the latest ones of a run."""
        shown = self._signatures(MAX_COMPARED_ROUNDS)[len(self._new) :]
        known = [record.signature for record in records[::-1]]
        return shown[: len(known)] == known[: len(shown)]

    def _signatures(self, count: int) -> list[bytes]:
        """Return the signatures of the latest rounds as in records, the latest first."""
        signature = self._digester.signature
        rounds = self._trajectory.latest(count)
        return [signature(round_) if round_.calls else bytes(6) for round_ in rounds]

    def _judge_run(self, link: RunLink, records: list[RoundRecord], seen: bytes) -> None:
        is_cut = bool(self._new) and not self._is_whole(link)
        is_partial = is_cut or bool(link.flags & PARTIAL)
        # A summary may stand for all but the latest rounds, which are kept.
        is_compacted = len(self._call.raws) < link.messages and opening_of(self._call).tells
        traits_before = records[-1].traits
        mark = Trait.AFTER_TRIM if is_partial and not link.flags & PARTIAL else Trait(0)
        if is_compacted and self._new:
            link, traits_before = _next_segment(link, records[-1]), 0
            mark = Trait.AFTER_TRIM | Trait.AFTER_COMPACTION
        added: list[RoundRecord] = []
        pairs = b""
        for round_ in self._new:
            before = self._trajectory.latest(2)
            record = self._full_record(round_, before[1] if len(before) > 1 else None)
            record, pairs = self._in_segment(record, link, records, traits_before, seen, round_)
            added.append(record._replace(traits=record.traits | mark))
        self._conclude(link, [*records, *added], added, seen, pairs, is_partial=is_partial)

    def _in_segment(
        self,
        record: RoundRecord,
        link: RunLink,
        records: Sequence[RoundRecord],
        traits_before: int,
        seen: bytes,
        round_: Round | None = None,
    ) -> tuple[RoundRecord, bytes]:
        """Return a new record placed in its segment, and its pairs that had not been seen."""
        new = [pair for pair in self._pairs(record, round_) if not _contains(seen, pair.gist)]
        if new and any(map(record.repeats, records)):
            new = []
        traits = record.traits | (Trait.NEW if new else 0)
        if new or traits_before & Trait.NEWS:
            traits |= Trait.NEWS
        total = min(link.total_calls + record.call_count, 65_535)
        placed = self._placed(record, traits, link.segment, link.stale_segments, total)
        return placed, b"".join([pair.call + pair.gist for pair in new])

    def _conclude(
        self,
        link: RunLink,
        records: Sequence[RoundRecord],
        added: Sequence[RoundRecord],
        seen: bytes,
        pairs: bytes,
        *,
        is_partial: bool,
    ) -> None:
        """Set the run to judge, and what to remember of it."""
        call, latest = self._call, records[-1]
        is_undecided = latest.segment > 0 and not latest.traits & Trait.NEWS
        flags = (PARTIAL if is_partial else 0) | (UNDECIDED if is_undecided else 0)
        flags |= link.flags & COMPLETE
        self.link = RunLink(
            link.run,
            len(call.raws),
            len(call.request.body),
            flags,
            latest.segment,
            latest.stale_segments,
            latest.total_calls,
        )
        if flags & HIDDEN:
            self.run = RunTrajectory(call, records[-MAX_REMEMBERED_ROUNDS:], self._tool_names())
        self._seen = seen + pairs
        packed = b"".join([record.pack() for record in added])
        self.notes = self._notes(packed, pairs) if added else ()

    # A run that is not known by its latest round but one

    def _family_keys(self) -> Sequence[bytes]:
        if not self._families:
            call, memory = self._call, self._memory
            self._session = call.request.session or agent_session_of(call)
            self._families = memory.session_key(call, self._session), memory.opening_key(call)
        return self._families

    def _take_families(self, recalled: Sequence[bytes]) -> None:
        """Find out whether a new run goes on after a compaction, or is a restart."""
        of_session, of_opening = recalled
        # After a compaction or a restart, a request is short.
        is_short = len(self._call.raws) <= MAX_OPENING_HISTORY
        opening = opening_of(self._call) if is_short else NO_OPENING
        self._take = RunFitting._take_candidates
        runs = self._runs_of(of_session, opening)
        # Without ids, the latest round but one is not known again once its result is left out.
        self._may_continue = bool(self._before_key) and not self._has_ids
        self._candidates = runs if self._compacted or self._may_continue else []
        if opening.is_first and self._is_beginning():
            self._latest_run = LatestRun.unpack(of_opening)
        keys = list(self._candidates)
        if keys:
            keys += [self._memory.seen_key(run) for run in self._candidates]
        if self._latest_run is not None:
            keys += self._latest_run.runs
        if keys:
            self.recalls = keys
        else:
            self._start_run(self._first_rounds(), b"")

    def _runs_of(self, of_session: bytes, opening: Opening) -> list[bytes]:
        """Return the latest runs of a session, each once; note which may go on after a compaction.

        Where no session is named, a run that began with the same summary is another one: after each
        compaction it differs.
        """
        digest = self._digester.digest
        self._entry = digest(system_of(self._call))[:4], digest(opening.content)[:4]
        system, content = self._entry
        whole = len(of_session) - len(of_session) % _RUN_OF_SESSION.size
        began = {run: entry for run, *entry in _RUN_OF_SESSION.iter_unpack(of_session[:whole])}
        runs = {run: of_content for run, (its, of_content) in began.items() if its == system}
        is_certain = opening.is_sealed or bool(self._session)
        self._compacted = {
            run
            for run, of_content in runs.items()
            if opening.tells and (is_certain or of_content != content)
        }
        return list(runs)

    def _take_candidates(self, recalled: Sequence[bytes]) -> None:
        count = len(self._candidates)
        candidates = list(
            zip(self._candidates, recalled[:count], recalled[count : 2 * count], strict=True)
        )
        if self._may_continue:
            # Few runs made the call before: no others need to be compared.
            before = self._signatures(2)[1]
            likely = self._live(one for one in candidates if ends_with_call(one[1], before))
            if likely:
                shown = self._signatures(MAX_COMPARED_ROUNDS)[1:]
                continued = [one for one in likely if self._extends(one[1], shown)]
                if len(continued) == 1:
                    self._extend(*continued[0])
                    return
        live = self._live(candidates) if self._compacted else []
        if live and _follow_each_other([records for _, records, _ in live]):
            latest = max(live, key=lambda one: one[1][-1].seconds)
            if latest[0] in self._compacted:
                self._go_on(*latest)
                return
        ending = b""
        if self._latest_run is not None:
            ended, *others = map(_rounds_in, recalled[2 * count :])
            if ending := self._ending(ended):
                latest_before_s = max([one[-1].seconds for one in others if one], default=0)
                self.restarts = self._latest_run.count_restarts(ending, latest_before_s)
        self._start_run(self._first_rounds(), ending)

    def _live(self, candidates: Iterable[tuple[bytes, bytes, bytes]]) -> list[_LiveRun]:
        """Return the runs that sent a request lately."""
        unpacked = [(run, _rounds_in(packed), seen) for run, packed, seen in candidates]
        since = self._now - LIVE_S
        return [one for one in unpacked if one[1] and one[1][-1].seconds >= since]

    def _extends(self, records: Sequence[RoundRecord], shown: Sequence[bytes]) -> bool:
        """Return whether a request makes the same latest calls as a run, and then one more."""
        known = [record.signature for record in records[: -len(shown) - 1 : -1]]
        is_longer = len(self._call.raws) > records[-1].messages
        return shown == known and is_longer

    def _extend(self, run: bytes, records: list[RoundRecord], seen: bytes) -> None:
        last = records[-1]
        self._new = self._trajectory.latest(1)
        link = RunLink(
            run, last.messages, 0, 0, last.segment, last.stale_segments, last.total_calls
        )
        self._judge_run(link, records, seen)

    def _ending(self, records: Sequence[RoundRecord]) -> bytes:
        """Return how a run ended: in a failure, or in nothing that keeps it from a new start.

        A job that asks the same from time to time is no restart, unless it fails.
        """
        if not records:
            return b""
        last = records[-1]
        if last.total_calls <= sum(len(round_.calls) for round_ in self._first_rounds()):
            return b""  # perhaps it runs beside this one
        if last.traits & Trait.FAILED:
            return last.failure
        if self._now - last.seconds > RESTART_S:
            return b""
        content = b"%b%b%d" % (last.signature, last.result, last.total_calls)
        return self._digester.digest(content)[:4]

    def _go_on(self, run: bytes, records: list[RoundRecord], seen: bytes) -> None:
        """Continue a run after a compaction."""
        link = _next_segment(RunLink(run, 0, 0), records[-1])
        added: list[RoundRecord] = []
        all_pairs = b""
        rounds = self._trajectory.latest(MAX_SEGMENT_ROUNDS)[::-1]
        for round_, before in zip(rounds, [None, *rounds], strict=False):
            traits = added[-1].traits if added else 0
            full = self._full_record(round_, before)
            known = [*records, *added]
            record, pairs = self._in_segment(full, link, known, traits, seen + all_pairs, round_)
            if not added:
                record = record._replace(traits=record.traits | Trait.AFTER_COMPACTION)
            link = link._replace(total_calls=record.total_calls)
            added.append(record)
            all_pairs += pairs
        self._conclude(link, [*records, *added], added, seen, all_pairs, is_partial=False)
        self.notes = [*self.notes, self._note_of_session(run)]

    def _note_of_session(self, run: bytes) -> Note:
        limit = MAX_RUNS_OF_SESSION * _RUN_OF_SESSION.size
        return Note(self._family_keys()[0], _RUN_OF_SESSION.pack(run, *self._entry), limit)

    def _start_run(self, rounds: Sequence[Round], ending: bytes) -> None:
        """Remember the first rounds of a run, and that it is one of its session."""
        memory, call = self._memory, self._call
        run = memory.run_key(call, self._newest_key, self._now, self._is_local)
        packed, total, messages = b"", 0, min(len(call.raws), 65_535)
        links = [self._before_key, self._newest_key][-len(rounds) :]
        for round_, key in zip(rounds, links, strict=True):
            link = key[-4:]
            total = min(total + len(round_.calls), 65_535)
            if round_.calls:
                seconds = int(self._now)
                signature = self._digester.signature(round_)
                packed += self._digester.pack_brief(
                    round_,
                    link,
                    signature,
                    0,
                    0,
                    messages,
                    total,
                    seconds,
                    with_failure=round_ is rounds[-1],  # for the others that takes too long
                )
            else:
                record = self._full_record(round_, None)
                packed += self._placed(record, record.traits | _NEWS, 0, 0, total).pack()
        flags = COMPLETE if self._is_beginning() else 0
        self.link = RunLink(run, len(call.raws), len(call.request.body), flags, 0, 0, total)
        notes = self._notes(packed, b"")
        notes.append(self._note_of_session(run))
        opening = self._family_keys()[1]
        before = self._latest_run.run if self._latest_run is not None else bytes(len(run))
        began = int(self._now) & 0xFFFFFFFF
        latest = LatestRun(run, before, began, ending or bytes(4), self.restarts)
        notes.append(Note(opening, latest.pack()))
        self.notes = notes

    # A history that the provider keeps

    def _take_chain(self, recalled: Sequence[bytes]) -> None:
        """Join the results of a request with the calls of the answer before, if it had any."""
        value = recalled[0]
        results = [result for message in self._call.messages for result in message.results]
        if len(value) != LINK.size + ROUND_BYTES:
            return
        self._calls = records_of(value[LINK.size :])[0]
        if bool(results) != bool(self._calls.call_count):
            return
        self._link = RunLink(*LINK.unpack(value[: LINK.size]))
        self._results = results
        self._take = RunFitting._take_kept
        self.recalls = (self._link.run, self._memory.seen_key(self._link.run))

    def _take_kept(self, recalled: Sequence[bytes]) -> None:
        link, calls = self._link, self._calls
        assert link is not None
        assert calls is not None
        records, seen = _rounds_in(recalled[0]), recalled[1]
        if records and records[-1].link == calls.link:
            added, pairs = [], b""  # it was sent before
        else:
            record = self._digester.completed(calls, self._results) if self._results else calls
            traits = records[-1].traits if records else int(Trait.NEWS)
            record, pairs = self._in_segment(record, link, records, traits, seen)
            added = [record]
        self._conclude(link, [*records, *added], added, seen, pairs, is_partial=True)

    # What to remember

    @property
    def reads_answer(self) -> bool:
        """Whether the calls of the answer may be what is new since the latest compaction.

        The next compaction may come before a request shows their results.
        """
        return self.link is not None and bool(self.link.flags & UNDECIDED)

    def remember_calls(self, calls: tuple[ToolCall, ...]) -> Sequence[Note]:
        """Return the note of an answer's calls, where they are new in a run that is undecided."""
        if self.run is None or self.link is None or not self.reads_answer:
            return ()
        digester, latest = self._digester, self.run.records[-1]
        known = {record.signature for record in self.run.records}
        signatures = [digester.call_signature(call) for call in calls if not is_note(call.name)]
        marks = [
            digester.digest(b"call" + one)[:PAIR_BYTES] for one in signatures if one not in known
        ]
        new = [mark for mark in marks if not _contains(self._seen, mark)]
        if not new:
            return ()
        record = digester.calls_record(Message("assistant", "", calls), bytes(4))
        traits = int(Trait.NEW | Trait.NEWS | Trait.PENDING)
        place = latest.segment, latest.stale_segments, latest.total_calls
        pending = self._placed(record, traits, *place)
        return self._notes_of(self.link.run, pending.pack(), b"".join(new))

    def _notes_of(self, run: bytes, records: bytes, pairs: bytes) -> list[Note]:
        notes = [Note(run, records, MAX_RUN_BYTES)]
        if pairs:
            seen = self._memory.seen_key(run)
            notes.append(Note(seen, pairs, MAX_PAIRS * PAIR_BYTES))
        return notes

    def _full_record(self, round_: Round, before: Round | None) -> RoundRecord:
        is_unknown_tool = calls_unknown_tool(round_, self._call.tools)
        return self._digester.record(
            round_,
            self._memory.link_key(self._call, round_, self._is_local)[-4:],
            before,
            is_unknown_tool=is_unknown_tool,
        )

    def _placed(
        self, record: RoundRecord, traits: int, segment: int, stale_segments: int, total: int
    ) -> RoundRecord:
        # By position: `_replace` takes longer.
        return RoundRecord(
            *record[:8],
            traits,
            record.call_count,
            segment,
            stale_segments,
            min(len(self._call.raws), 65_535),
            total,
            int(self._now) & 0xFFFFFFFF,
        )

    def _pairs(self, record: RoundRecord, round_: Round | None) -> list[_Pair]:
        """Return the calls of a round with their results; none of notes that an agent makes."""
        if record.call_count == 0 or record.traits & Trait.NOTE:
            return []
        if round_ is None or record.call_count == 1:
            return [self._pair(record.signature, record.gist)]
        digester = self._digester
        return [
            self._pair(
                digester.call_signature(call),
                digester.gist(
                    result.text if result is not None else "", is_failure=round_.failure is not None
                ),
            )
            for call, result in zip(round_.calls, round_.results, strict=True)
            if not is_note(call.name)
        ]

    def _pair(self, signature: bytes, gist: bytes) -> _Pair:
        digest = self._digester.digest
        return _Pair(
            digest(b"call" + signature)[:PAIR_BYTES], digest(signature + gist)[:PAIR_BYTES]
        )

    def _notes(self, records: bytes, pairs: bytes) -> list[Note]:
        """Return the notes of new rounds."""
        link = self.link
        assert link is not None
        notes = self._notes_of(link.run, records, pairs)
        if not self._call.chain:
            notes.append(Note(self._newest_key, link.pack()))
            if self._before_key and self._before_key != self._newest_key:
                notes.append(Note(self._before_key, b""))
        return notes

    def _is_beginning(self) -> bool:
        """Return whether the request shows no more than the first rounds of a run."""
        return len(self._trajectory.latest(MAX_FIRST_ROUNDS + 1)) <= MAX_FIRST_ROUNDS

    def _first_rounds(self) -> Sequence[Round]:
        """Return the latest rounds that the request shows, the oldest first."""
        return self._trajectory.latest(MAX_FIRST_ROUNDS)[::-1]

    def _tool_names(self) -> dict[bytes, frozenset[str]]:
        """Return the tools that the request offers or calls, by the digests in records."""
        names_of = self._digester.names
        sets = [frozenset((name,)) for name in self._call.tools]
        sets += [round_.names for round_ in self._trajectory.latest(MAX_SEGMENT_ROUNDS)]
        return {names_of(names): names for names in sets}


def _follow_each_other(runs: Sequence[Sequence[RoundRecord]]) -> bool:
    """Return whether only one run was under way at a time: then the latest is the one that goes on.

    Of agents side by side in one session, nobody can tell which one was compacted.
    """
    latest = max(runs, key=lambda records: records[-1].seconds)
    others = [records for records in runs if records is not latest]
    return all(records[-1].seconds <= latest[0].seconds for records in others)


def _rounds_in(remembered: bytes) -> list[RoundRecord]:
    """Return the records of a run; those of pending calls only last, or before a compaction."""
    records = records_of(remembered)
    return [
        record
        for record, after in zip_longest(records, records[1:])
        if not record.traits & Trait.PENDING or after is None or after.segment != record.segment
    ]


def _contains(pairs: bytes, pair: bytes) -> bool:
    """Return whether a pair is among pairs, each of `PAIR_BYTES` bytes."""
    at = pairs.find(pair)
    while at >= 0 and at % PAIR_BYTES:
        at = pairs.find(pair, at + 1)
    return at >= 0


def _next_segment(link: RunLink, last: RoundRecord) -> RunLink:
    """Return a run's link after a compaction that followed its last round."""
    is_stale = last.segment > 0 and not last.traits & Trait.NEWS
    return link._replace(
        segment=(last.segment + 1) % 256 or 1,
        stale_segments=min(last.stale_segments + 1, 255) if is_stale else 0,
        total_calls=last.total_calls,
    )


def remember_answer(
    memory: RunMemory,
    call: Call,
    fitting: RunFitting | None,
    turn: AnsweredTurn,
    now: float,
    is_local: bool,
) -> Sequence[Note]:
    """Return what to remember of an answer, which a later call may continue."""
    calls = turn.calls
    if not call.keeps_history:
        return fitting.remember_calls(calls) if fitting is not None and calls else ()
    digester = memory.digester(is_local)
    if calls:
        ids = digester.digest(join([made.id for made in calls]))
        record = digester.calls_record(Message("assistant", "", calls), ids)
    elif call.chain and fitting is not None and (text := turn.short_text(MAX_SAID_CHARS)):
        # Most answers in words end a run, and nothing is remembered of them. But this one comes
        # after the results of tools, or after what a harness said.
        said = Round(Message("assistant", text), ())
        record = digester.record(said, digester.digest(turn.response_id.encode()))
    else:
        return ()
    link = fitting.link if fitting is not None else None
    key = memory.chain_key(call, turn.response_id)
    if link is None:
        link = RunLink(memory.run_key(call, key, now), 0, 0, PARTIAL)
    value = link.pack() + record.pack()
    notes = [Note(key, value)]
    conversation = turn.conversation or ("" if call.chain.startswith("resp") else call.chain)
    if conversation:
        notes.append(Note(memory.chain_key(call, conversation), value))
    return notes
