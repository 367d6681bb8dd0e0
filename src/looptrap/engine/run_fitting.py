"""RunFitting: how a request fits to the run that a store remembers of it. Pure.

As long as a request shows its run whole, its new round is appended to the run, and nothing is
read. Where the request shows less (a history that was trimmed, elided or compacted, or is kept by
the provider), the rounds that are remembered are judged in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

from looptrap.detect.canonical import join
from looptrap.detect.opening import opening_of
from looptrap.detect.remembered_round import (
    MAX_REMEMBERED_ROUNDS,
    ROUND_BYTES,
    RoundRecord,
    Trait,
    has_signature,
    records_of,
)
from looptrap.detect.round import Round
from looptrap.detect.trajectory import RunTrajectory, Trajectory
from looptrap.dialect.model import AnsweredTurn, Call, Message, ToolCall, ToolResult
from looptrap.engine.run_memory import (
    COMPLETE,
    HIDDEN,
    LINK,
    PARTIAL,
    UNDECIDED,
    UNLISTED,
    RunLink,
    RunMemory,
)
from looptrap.engine.run_recorder import MAX_RUN_BYTES, MAX_SHORT, NEWS, RunRecorder, records_in
from looptrap.engine.run_search import (
    MAX_COMPARED_ROUNDS,
    MAX_OPENING_HISTORY,
    KnownRun,
    RunSearch,
    first_rounds,
    is_beginning,
)
from looptrap.store.model import Note

MIN_TRUSTED_ROUNDS = 20
"""Rounds that must be remembered of a run that was not seen from its beginning, to tell by them
whether a call is new: as many as are searched otherwise."""

MAX_BEGINNING_MESSAGES = 7
"""Messages of a request with the first two rounds of a run: most have six."""

MAX_SEGMENT_ROUNDS = 20
"""Latest rounds that are remembered of what a request shows after a compaction."""

MAX_REPEATABLE_MESSAGES = 40
"""Messages after a compaction in which every round is remembered in full."""

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

MAX_PLACEHOLDER_CHARS = 200
"""Characters of a text that stands for a result that was left out."""


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
    _search: RunSearch | None = None
    _calls: RoundRecord | None = None
    _results: Sequence[ToolResult] = ()
    _seen = b""

    def __init__(
        self, memory: RunMemory, call: Call, trajectory: Trajectory, now: float, is_local: bool
    ) -> None:
        self._is_local = is_local
        self._recorder = RunRecorder(memory, call, now, is_local)
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
            return (self._newest_key, *self._searched().recalls)
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
            self._start_run(first_rounds(self._trajectory)[-1:])
        elif not self._before_key:
            self._take_search(others)
        elif self._is_resumed():
            self._resume()
        else:
            self._take, self.recalls = RunFitting._take_search, self._searched().recalls

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
        if new and not self._is_hidden(link, new[0]) and self._is_whole(link):
            if self._is_local:
                self._take, self.recalls = RunFitting._take_whole, (link.run,)
            else:
                self._add(link, new[0], self._trajectory.is_new_call)
        elif new or link.flags & HIDDEN:
            self._take = RunFitting._take_run
            self.recalls = (link.run, self._memory.seen_key(link.run))

    def _is_hidden(self, link: RunLink, round_: Round) -> bool:
        """Return whether a round is judged by what is remembered: after a compaction, the same
        failure may have come before it."""
        return bool(link.flags & HIDDEN) or (link.segment > 0 and round_.failure is not None)

    def _take_whole(self, recalled: Sequence[bytes]) -> None:
        """Add the new round of a run that the request shows whole, by what is known of the run."""
        remembered, link, round_ = recalled[0], self._link, self._new[0]
        assert link is not None
        is_new, signature = False, b""
        if round_.calls:
            signature = self._recorder.digester.signature(round_)
            is_new = not has_signature(remembered, signature)
            if link.flags & COMPLETE or len(remembered) >= MIN_TRUSTED_ROUNDS * ROUND_BYTES:
                self._trajectory.is_new_call = is_new
        self._add(link, round_, is_new, signature)

    def _add(self, link: RunLink, round_: Round, is_new: bool, signature: bytes = b"") -> None:
        """Add a round to a run that the request shows whole."""
        call, recorder = self._call, self._recorder
        messages = len(call.raws)
        total = min(link.total_calls + len(round_.calls), MAX_SHORT)
        # What comes soon after a compaction may come again after the next one.
        is_repeatable = link.segment > 0 and messages <= MAX_REPEATABLE_MESSAGES
        if is_new and not is_repeatable:
            signature = signature or recorder.digester.signature(round_)
            packed = recorder.pack_next(round_, self._newest_key, signature, link, total)
        else:
            record = recorder.record(round_, self._trajectory.latest(2)[1])
            traits = record.traits | NEWS
            packed = recorder.place(record, traits, link.segment, link.stale_segments, total).pack()
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
            search = self._searched()
            search.note_system()
            self.notes += (search.session_note(link.run),)

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
        records = records_in(recalled[0])
        if records and (self._has_ids or self._shows_end_of(records)):
            self._judge_run(link, records, recalled[1])
        else:
            self._start_run(self._new or self._trajectory.latest(1))

    def _shows_end_of(self, records: Sequence[RoundRecord]) -> bool:
        """Return whether the calls before a new round are the latest ones of a run."""
        rounds = self._trajectory.latest(MAX_COMPARED_ROUNDS)
        shown = self._recorder.signatures(rounds[len(self._new) :])
        known = [record.signature for record in records[::-1]]
        return shown[: len(known)] == known[: len(shown)]

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
            full = self._recorder.record(round_, before[1] if len(before) > 1 else None)
            record, pairs = self._recorder.place_in_segment(
                full, link, records, traits_before, seen, round_
            )
            added.append(record._replace(traits=record.traits | mark))
        self._conclude(link, [*records, *added], added, seen, pairs, is_partial=is_partial)

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
        if flags & HIDDEN or (latest.segment and latest.traits & Trait.FAILED):
            rounds = self._trajectory.latest(MAX_SEGMENT_ROUNDS)
            names = self._recorder.tool_names(rounds)
            self.run = RunTrajectory(call, records[-MAX_REMEMBERED_ROUNDS:], names)
        self._seen = seen + pairs
        packed = b"".join([record.pack() for record in added])
        self.notes = self._notes(packed, pairs) if added else ()

    # A run that is not known by its latest round but one

    def _searched(self) -> RunSearch:
        """Return the search for the run that goes on, made when it is first needed."""
        if self._search is None:
            # Without ids, the latest round but one is not known again once its result is left out.
            may_continue = bool(self._before_key) and not self._has_ids
            self._search = RunSearch(
                self._memory,
                self._call,
                self._trajectory,
                self._recorder,
                self._now,
                may_continue=may_continue,
            )
        return self._search

    def _take_search(self, recalled: Sequence[bytes]) -> None:
        """Find out whether a run goes on, perhaps after a compaction, or a new one begins."""
        search = self._searched()
        search.take(recalled)
        if search.recalls:
            self._take, self.recalls = RunFitting._take_search, search.recalls
        elif search.continued is not None:
            self._extend(search.continued)
        elif search.compacted is not None:
            self._go_on(search.compacted)
        else:
            self.restarts = search.restarts
            self._start_run(first_rounds(self._trajectory))

    def _extend(self, known: KnownRun) -> None:
        last = known.records[-1]
        self._new = self._trajectory.latest(1)
        link = RunLink(
            known.key, last.messages, 0, 0, last.segment, last.stale_segments, last.total_calls
        )
        self._judge_run(link, known.records, known.seen)

    def _go_on(self, known: KnownRun) -> None:
        """Continue a run after a compaction."""
        recorder = self._recorder
        link = _next_segment(RunLink(known.key, 0, 0), known.records[-1])
        added: list[RoundRecord] = []
        all_pairs = b""
        rounds = self._trajectory.latest(MAX_SEGMENT_ROUNDS)[::-1]
        for round_, before in zip(rounds, [None, *rounds], strict=False):
            traits = added[-1].traits if added else 0
            records, seen = [*known.records, *added], known.seen + all_pairs
            full = recorder.record(round_, before)
            record, pairs = recorder.place_in_segment(full, link, records, traits, seen, round_)
            if not added:
                record = record._replace(traits=record.traits | Trait.AFTER_COMPACTION)
            link = link._replace(total_calls=record.total_calls)
            added.append(record)
            all_pairs += pairs
        self._conclude(
            link, [*known.records, *added], added, known.seen, all_pairs, is_partial=False
        )
        self.notes = [*self.notes, self._searched().session_note(known.key)]

    def _start_run(self, rounds: Sequence[Round]) -> None:
        """Remember the first rounds of a run, and that it is one of its session."""
        call, search = self._call, self._searched()
        run = self._memory.run_key(call, self._newest_key, self._now, self._is_local)
        keys = [self._before_key, self._newest_key][-len(rounds) :]
        packed, total = self._recorder.pack_first(rounds, keys)
        flags = COMPLETE if is_beginning(self._trajectory) else 0
        self.link = RunLink(run, len(call.raws), len(call.request.body), flags, 0, 0, total)
        notes = self._notes(packed, b"")
        self.notes = [*notes, search.session_note(run), search.opening_note(run)]

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
        records, seen = records_in(recalled[0]), recalled[1]
        if records and records[-1].link == calls.link:
            added, pairs = [], b""  # it was sent before
        else:
            digester = self._recorder.digester
            full = digester.completed(calls, self._results) if self._results else calls
            traits = records[-1].traits if records else int(Trait.NEWS)
            record, pairs = self._recorder.place_in_segment(full, link, records, traits, seen)
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
        return self._recorder.pending_notes(self.link.run, calls, self.run.records, self._seen)

    def _notes(self, records: bytes, pairs: bytes) -> list[Note]:
        """Return the notes of new rounds."""
        link = self.link
        assert link is not None
        notes = self._recorder.notes(link.run, records, pairs)
        if not self._call.chain:
            notes.append(Note(self._newest_key, link.pack()))
            if self._before_key and self._before_key != self._newest_key:
                notes.append(Note(self._before_key, b""))
        return notes


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
