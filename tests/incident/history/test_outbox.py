"""The outbox: no letter is lost, and none is with two who deliver it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from tests.examples import examples
from tests.incident.history.keeping import NOON, Clock, event, opened_history, outgoing

from looptrap.incident.history.outbox import read_deliveries


def names(letters):
    return [(letter.event.id, letter.channel) for letter in letters]


def test_an_event_is_a_letter_for_each_channel(history):
    history.put([], outgoing(1, channels=("ops", "slack")))
    assert history.outbox.counts() == {"pending": 2, "delivered": 0, "dead": 0}
    letters = history.outbox.lease(NOON, "me", 10, 30)
    assert names(letters) == [("evt-1", "ops"), ("evt-1", "slack")]
    assert letters[0].event == event(1)
    assert (letters[0].attempts, letters[0].created, letters[0].lease_until) == (1, NOON, NOON + 30)


def test_the_same_event_for_the_same_channel_is_put_once(history):
    history.put([], outgoing(1))
    (letter,) = history.outbox.lease(NOON, "me", 10, 30)
    history.outbox.mark_delivered(letter, NOON)
    history.put([], outgoing(1, 1, channels=("ops", "slack")))
    assert history.outbox.counts() == {"pending": 1, "delivered": 1, "dead": 0}


def test_what_is_leased_nobody_else_gets_until_the_lease_ends(history):
    history.put([], outgoing(1, 2))
    outbox = history.outbox
    assert len(outbox.lease(NOON, "me", 1, 30)) == 1
    assert names(outbox.lease(NOON, "you", 10, 30)) == [("evt-2", "ops")]
    assert outbox.lease(NOON + 29, "you", 10, 30) == []
    assert outbox.next_due() == NOON + 30
    again = outbox.lease(NOON + 30, "you", 10, 30)
    assert [letter.attempts for letter in again] == [2, 2]


def test_the_longest_due_goes_first(history):
    history.put([], outgoing(1, 2, 3))
    outbox = history.outbox
    one, two, three = outbox.lease(NOON, "me", 10, 30)
    for letter, due in ((one, 60), (two, 40), (three, 50)):
        outbox.reschedule(letter, "no", NOON + due)
    found = [outbox.lease(NOON + 100, "me", 1, 30)[0].event.id for _ in range(3)]
    assert found == ["evt-2", "evt-3", "evt-1"]


def test_channels_that_are_busy_can_be_left_out(history):
    history.put([], outgoing(1, channels=("slow", "quick")))
    outbox = history.outbox
    assert names(outbox.lease(NOON, "me", 10, 30, without=["slow"])) == [("evt-1", "quick")]
    assert outbox.next_due() == NOON
    assert outbox.next_due(without=["slow"]) == NOON + 30
    assert outbox.next_due(without=["slow", "quick"]) is None


def test_what_failed_is_due_again_and_says_why(history):
    history.put([], outgoing(1))
    outbox = history.outbox
    (letter,) = outbox.lease(NOON, "me", 10, 30)
    assert outbox.reschedule(letter, "HTTP 500", NOON + 5)
    assert outbox.next_due() == NOON + 5
    (letter,) = outbox.lease(NOON + 5, "me", 10, 30)
    assert (letter.attempts, letter.last_error) == (2, "HTTP 500")


def test_what_is_buried_is_seen_and_sent_anew_when_told(history, clock):
    history.put([], outgoing(1, 2))
    outbox = history.outbox
    one, _two = outbox.lease(NOON, "me", 10, 30)
    clock.now = NOON + 9
    assert outbox.mark_dead(one, "HTTP 410")
    (dead,) = outbox.deliveries("dead").items
    assert (dead.event.id, dead.last_error, dead.ended) == ("evt-1", "HTTP 410", NOON + 9)
    assert outbox.resend("evt-1") == 1
    (letter,) = outbox.lease(NOON + 9, "me", 10, 30)
    assert (letter.attempts, letter.created, letter.ended) == (1, NOON + 9, None)


def test_also_what_was_delivered_or_waits_can_be_sent_anew_but_not_what_is_under_way(history):
    history.put([], outgoing(1, channels=("a", "b", "c", "d")))
    outbox = history.outbox
    a, b, c, d = outbox.lease(NOON, "me", 10, 30)
    outbox.mark_delivered(a, NOON)
    outbox.reschedule(b, "no", NOON + 3600)
    outbox.mark_dead(c, "no")
    assert outbox.resend("evt-1", "b") == 1
    assert outbox.resend("evt-1") == 3
    assert outbox.resend("evt-2") == 0
    found = outbox.lease(NOON, "you", 10, 30)
    assert [letter.channel for letter in found] == ["a", "b", "c"]
    assert d.channel not in {letter.channel for letter in found}


@pytest.mark.parametrize("late", ["failed", "bury"])
def test_who_comes_after_the_lease_has_ended_changes_nothing(history, late):
    history.put([], outgoing(1))
    outbox = history.outbox
    (old,) = outbox.lease(NOON, "me", 10, 30)
    (new,) = outbox.lease(NOON + 30, "you", 10, 30)
    done = (
        outbox.reschedule(old, "late", NOON) if late == "failed" else outbox.mark_dead(old, "late")
    )
    assert not done
    assert outbox.deliveries().items == [new]


def test_what_arrived_has_arrived_even_after_the_lease(history):
    history.put([], outgoing(1))
    (old,) = history.outbox.lease(NOON, "me", 10, 30)
    (new,) = history.outbox.lease(NOON + 30, "you", 10, 30)
    history.outbox.mark_delivered(old, NOON + 31)
    assert not history.outbox.reschedule(new, "no", NOON + 40)
    (letter,) = history.outbox.deliveries("delivered").items
    assert letter.ended == NOON + 31


def test_letters_are_shown_page_by_page_the_newest_first(history):
    history.put([], outgoing(*range(5)))
    page = history.outbox.deliveries("pending", 2)
    history.put([], outgoing(9))
    rest = history.outbox.deliveries("pending", 2, page.next_cursor)
    last = history.outbox.deliveries("pending", 2, rest.next_cursor)
    found = [letter.event.id for letter in page.items + rest.items + last.items]
    assert found == ["evt-4", "evt-3", "evt-2", "evt-1", "evt-0"]
    assert last.next_cursor is None
    assert history.outbox.deliveries("all", 50, "9" * 30).next_cursor is None
    with pytest.raises(ValueError):
        history.outbox.deliveries("all", 50, "x")


def test_a_letter_that_cannot_be_read_holds_up_no_other(history, caplog):
    history.put([], outgoing(1, 2))
    with history._database.write() as connection:
        connection.execute("UPDATE letter SET body = ? WHERE event = 'evt-1'", (b"\xff",))
    assert names(history.outbox.lease(NOON, "me", 10, 30)) == [("evt-2", "ops")]
    assert history.outbox.counts()["dead"] == 1
    assert "cannot be read" in caplog.text


def test_a_long_or_odd_error_is_kept_short(history):
    history.put([], outgoing(1))
    (letter,) = history.outbox.lease(NOON, "me", 1, 30)
    history.outbox.reschedule(letter, "x" * 10_000 + "\ud800", NOON)
    assert history.outbox.deliveries().items[0].last_error == "x" * 500


def test_nothing_to_read_is_no_letter():
    assert read_deliveries([]) == ([], [])


class Delivering(RuleBasedStateMachine):
    """Whatever happens in whatever order, a letter is with one owner at a time."""

    leased = Bundle("leased")

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.history = opened_history(clock=self.clock)
        self.put, self.holders = 0, {}

    def teardown(self):
        self.history.close()

    @rule(channels=st.sampled_from([("a",), ("a", "b")]))
    def tell(self, channels):
        self.history.put([], outgoing(self.put, channels=channels))
        self.put += 1

    @rule(seconds=st.integers(1, 40))
    def wait(self, seconds):
        self.clock.now += seconds

    @rule(target=leased, owner=st.sampled_from("xyz"), limit=st.integers(1, 3))
    def lease(self, owner, limit):
        found = self.history.outbox.lease(self.clock.now, owner, limit, 30)
        for letter in found:
            held_until = self.holders.get(letter.number, 0)
            assert held_until <= self.clock.now, "leased while somebody else has it"
            self.holders[letter.number] = letter.lease_until
        return found

    @rule(letters=consumes(leased), how=st.sampled_from(["delivered", "failed", "bury"]))
    def end(self, letters, how):
        for letter in letters:
            is_ours = self.holders.get(letter.number) == letter.lease_until
            outbox = self.history.outbox
            if how == "delivered":
                outbox.mark_delivered(letter, self.clock.now)
                self.holders.pop(letter.number, None)
            else:
                done = (
                    outbox.reschedule(letter, "no", self.clock.now + 5)
                    if how == "failed"
                    else outbox.mark_dead(letter, "no")
                )
                assert is_ours or not done
                if done:
                    self.holders.pop(letter.number)

    @rule(number=st.integers(0, 5))
    def resend(self, number):
        self.history.outbox.resend(f"evt-{number}")

    @invariant()
    def none_is_lost(self):
        letters = self.history.outbox.deliveries("all", 10_000).items
        assert len({letter.event.id for letter in letters}) == self.put
        assert sum(self.history.outbox.counts().values()) == len(letters)


TestDelivering = Delivering.TestCase
TestDelivering.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)
