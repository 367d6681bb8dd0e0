"""The guard, walked through each preset's documented examples, boundary by boundary."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap import Guard, KilledError, LoopDetectedError, RefusedError
from looptrap.dialect.model import Outcome, Request, Usage
from looptrap.dialect.registry import read
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import KillSwitch, Policy, Project, Selector
from looptrap.policy.rule import Rule, ToolRule

T = 1_800_000_000.0


def chat(text="Summarise the report", model="gpt-5.3", **more):
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


def actions(guard, times, request=None, **options):
    """Check the same request at these seconds after T; return what was done each time."""
    done = []
    for time in times:
        try:
            ticket = guard.check(request or chat(), now=T + time, **options)
            done.append(ticket.verdict.action.value)
        except LoopDetectedError:
            done.append("refused")
    return done


def refusal(guard, time, request=None, **options) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        guard.check(request or chat(), now=T + time, **options)
    return caught.value


def sample(guard, begin, twins):
    """Check equal calls that are under way at once, and end them nine seconds later."""
    tickets = [guard.check(chat(), now=begin + number / 100) for number in range(twins)]
    for ticket in tickets:
        guard.conclude(ticket, Outcome(200), now=begin + 9)


class TestDefault:
    """6 equal conversations in a row are blocked for 30 s."""

    def test_five_pass_and_the_sixth_is_blocked(self):
        guard = Guard.from_preset("default")
        assert actions(guard, range(5)) == ["allow"] * 5
        error = refusal(guard, 5)
        assert (error.hit_count, error.cooldown_seconds) == (6, 30)
        assert error.rule == "identical-conversation"
        assert error.fingerprint.startswith("1-")
        assert "sent 6 times in a row" in error.message
        assert str(error).startswith("Blocked (recursive_loop_detected): ")
        assert error.evidence[0].count == 6

    def test_refusals_in_the_cooldown_raise_the_count_and_begin_it_anew(self):
        guard = Guard.from_preset("default")
        actions(guard, range(6))
        error = refusal(guard, 15)
        assert (error.hit_count, error.cooldown_seconds) == (7, 30)
        assert actions(guard, [44, 73, 102]) == ["refused", "refused", "refused"]
        assert actions(guard, [133]) == ["refused"], "as soon as it may: the streak goes on"
        assert actions(guard, [163 + 16]) == ["allow"]

    def test_elsewhere_refusals_run_the_cooldown_down(self):
        guard = Guard.from_preset("aisg")
        actions(guard, range(6))
        error = refusal(guard, 15)
        assert (error.hit_count, error.cooldown_seconds) == (7, 20)

    def test_after_a_pause_but_inside_the_cooldown_still_blocked(self):
        guard = Guard.from_preset("default")
        actions(guard, range(6))
        assert actions(guard, [25, 54.9]) == ["refused", "refused"]

    def test_after_both_allowed(self):
        guard = Guard.from_preset("default")
        actions(guard, range(6))
        assert actions(guard, [66]) == ["allow"]

    def test_right_after_the_cooldown_it_trips_again(self):
        guard = Guard.from_preset("default")
        actions(guard, range(6))
        assert refusal(guard, 36).hit_count == 7


class TestStreaks:
    """What is sent again as soon as it was answered is counted, however slow the answers are."""

    @pytest.mark.parametrize("seconds", [0.5, 5, 15, 60, 600])
    def test_the_sixth_call_in_a_row_is_refused_however_slow_answers_are(self, seconds):
        guard = Guard.from_preset("default")
        for number in range(5):
            begin = T + number * (seconds + 2)
            ticket = guard.check(chat(), now=begin)
            guard.conclude(ticket, Outcome(200), now=begin + seconds)
        assert refusal(guard, 5 * (seconds + 2)).hit_count == 6

    def test_a_timer_that_idles_in_between_is_no_loop(self):
        guard = Guard.from_preset("default")
        for minute in range(60):
            ticket = guard.check(chat(), now=T + 60 * minute)
            guard.conclude(ticket, Outcome(200), now=T + 60 * minute + 5)

    @pytest.mark.parametrize("twins", [8, 16])
    def test_a_sample_under_way_at_once_is_one_wave(self, twins):
        guard = Guard.from_preset("default")
        for batch in range(4):
            sample(guard, T + 10 * batch, twins)

    def test_the_same_sample_over_and_over_is_a_loop(self):
        guard = Guard.from_preset("default")
        for batch in range(4):
            sample(guard, T + 10 * batch, 8)
        with pytest.raises(LoopDetectedError):
            sample(guard, T + 40, 8)

    def test_more_at_once_than_a_sample_has_count_each(self):
        guard = Guard.from_preset("default")
        with pytest.raises(LoopDetectedError):
            sample(guard, T, 30)

    def test_checks_alone_count_as_answered_at_once(self):
        guard = Guard.from_preset("default")
        ticket = None
        for _ in range(5):
            ticket = guard.check(chat())
        with pytest.raises(LoopDetectedError):
            guard.check(chat())
        assert ticket is not None

    def test_a_prompt_that_grows_with_each_slow_retry_is_refused(self):
        guard = Guard.from_preset("default")
        prompt = "Fix the build of the second module, please, and run all of its tests."
        for number in range(6):  # the first one's end is not remembered yet
            ticket = guard.check(chat("It failed. " * number + prompt), now=T + 40 * number)
            guard.conclude(ticket, Outcome(200), now=T + 40 * number + 38)
        assert refusal(guard, 240, chat("It failed. " * 6 + prompt)).hit_count == 6

    @pytest.mark.parametrize("is_needed", [True, False])
    def test_the_calls_of_an_answer_are_read_where_they_are_needed(self, is_needed, monkeypatch):
        turns = []
        guard = Guard.from_preset("default")
        monkeypatch.setattr(
            guard, "remember_answer", lambda _, turn, *_now, **_where: turns.append(turn) or ()
        )
        function = {"name": "look", "arguments": "{}"}
        message = {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]}
        ticket = guard.check(chat(), now=T)
        ticket.reads_answer = is_needed
        answer = json.dumps({"choices": [{"message": message}]}).encode()
        guard.conclude(ticket, Outcome(200), now=T + 1, answer=answer)
        assert [call.name for turn in turns for call in turn.calls] == ["look"] * is_needed

    def test_an_outcome_is_counted_once(self):
        guard = Guard.from_preset("default")
        ticket = guard.check(chat(), now=T)
        guard.conclude(ticket, Outcome(200, Usage(10, 5)), now=T + 1)
        guard.conclude(ticket, Outcome(200), now=T + 2)
        assert guard.tally.requests["allow", "", "", "openai_chat", "", -1][0] == 1


class TestWhatCountsAsEqual:
    """What two calls of the default preset must share."""

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param({"caller": "another"}, id="another caller"),
            pytest.param({"session": "another"}, id="another session"),
            pytest.param({"request": chat(model="gpt-4o")}, id="another model"),
            pytest.param({"request": chat("Summarise the letter")}, id="a changed message"),
            pytest.param({"request": chat(user="u-2")}, id="another end user"),
        ],
    )
    def test_what_differs_is_never_blocked(self, change):
        guard = Guard.from_preset("default")
        actions(guard, range(6), caller="me")
        assert actions(guard, range(5), **{"caller": "me", **change}) == ["allow"] * 5

    def test_six_users_who_say_hi_are_six(self):
        guard = Guard.from_preset("default")
        for user in range(6):
            assert actions(guard, [user], chat("hi", user=f"u-{user}")) == ["allow"]

    def test_white_space_and_case_do_not_count(self):
        guard = Guard.from_preset("default")
        spellings = ["Try again", "try  again", "TRY AGAIN", "try\nagain", " try again "]
        for text in spellings:
            assert actions(guard, [0], chat(text)) == ["allow"]
        assert refusal(guard, 1, chat("Try\tagain")).hit_count == 6

    def test_embeddings_and_other_calls_may_repeat(self):
        guard = Guard.from_preset("default")
        embed = {"model": "text-embedding-3-small", "input": "same"}
        assert actions(guard, range(20), embed, path="/v1/embeddings") == ["allow"] * 20

    def test_a_responses_chain_with_equal_tool_outputs_is_not_a_loop(self):
        guard = Guard.from_preset("default")
        for turn in range(12):
            output = {"type": "function_call_output", "call_id": f"c{turn}", "output": "ok"}
            call = {"model": "gpt-5.3", "input": [output], "previous_response_id": f"resp_{turn}"}
            assert actions(guard, [turn], call) == ["allow"]

    def test_an_sdks_own_transport_retries_are_not_hits(self):
        guard = Guard.from_preset("default")
        for time in range(5):
            retries = ["0", "1", "2"] if time == 0 else ["0"]
            for retry in retries:
                headers = {"x-stainless-retry-count": retry}
                assert actions(guard, [time], headers=headers) == ["allow"]
        assert refusal(guard, 5).hit_count == 6

    def test_a_release_lets_the_next_call_through(self):
        guard = Guard.from_preset("default")
        actions(guard, range(5))
        assert guard.release(refusal(guard, 5).fingerprint)
        assert actions(guard, [6]) == ["allow"]


class TestAisg:
    """Caller + model + the last three contents: more than 5 in 60 s, then 30 s of refusal."""

    def test_five_pass_and_the_sixth_is_blocked(self):
        guard = Guard.from_preset("aisg")
        assert actions(guard, range(5)) == ["allow"] * 5
        error = refusal(guard, 5)
        assert (error.hit_count, error.cooldown_seconds) == (6, 30)
        assert actions(guard, [34.9]) == ["refused"]
        assert actions(guard, [66]) == ["allow"]

    def test_only_contents_of_the_last_three_messages_count(self):
        guard = Guard.from_preset("aisg")
        for turn in range(5):
            history = [{"role": "user", "content": f"old {turn}"}]
            history += [{"role": role, "content": "SAME"} for role in ("user", "assistant", "user")]
            assert actions(guard, [turn], {"model": "m", "messages": history}) == ["allow"]
        same = [{"role": "user", "content": "same"} for _ in range(3)]
        assert refusal(guard, 5, {"model": "m", "messages": same}).hit_count == 6

    def test_sessions_and_end_users_do_not_split_the_count(self):
        guard = Guard.from_preset("aisg")
        for turn in range(5):
            actions(guard, [turn], chat(user=f"u-{turn}"), session=f"s-{turn}")
        assert refusal(guard, 5).hit_count == 6


class TestFairvisor:
    """The 4th identical request in a refreshed 60 s window is rejected, told to wait 60 s."""

    def test_three_pass_and_the_fourth_is_rejected(self):
        guard = Guard.from_preset("fairvisor")
        assert actions(guard, range(3)) == ["allow"] * 3
        assert refusal(guard, 3).hit_count == 4

    def test_every_hit_refreshes_the_window(self):
        guard = Guard.from_preset("fairvisor")
        assert actions(guard, [0, 50, 100, 150, 200]) == ["allow"] * 3 + ["refused"] * 2
        assert actions(guard, [260]) == ["allow"]

    @pytest.mark.parametrize("path", ["/v1/chat/completions?b=2&a=1", "/v1/other?a=1&b=2"])
    def test_path_and_sorted_query_count(self, path):
        guard = Guard.from_preset("fairvisor")
        for time in range(3):
            read_and_admit(guard, time, "/v1/chat/completions", "a=1&b=2")
        where, _, query = path.partition("?")
        action = read_and_admit(guard, 3, where, query).verdict.action
        assert action is (Action.BLOCK if where.endswith("completions") else Action.ALLOW)

    def test_the_throttle_variant_delays_by_100_ms_a_hit(self):
        guard = Guard.from_preset("fairvisor-throttle")
        assert actions(guard, range(3)) == ["allow"] * 3
        ticket = guard.check(chat(), now=T + 3)
        assert (ticket.verdict.action, ticket.verdict.delay) == (Action.THROTTLE, 0.4)

    def test_no_delay_passes_30_seconds(self):
        guard = Guard.from_preset("fairvisor-throttle")
        for time in range(400):
            ticket = guard.check(chat(), now=T + time / 10)
        assert ticket.verdict.delay == 30

    def test_the_warn_variant_lets_everything_pass(self):
        guard = Guard.from_preset("fairvisor-warn")
        assert actions(guard, range(6)) == ["allow"] * 3 + ["warn"] * 3


class TestZelyx:
    """The 10th call of a session in 60 s is warned about; without a session the 100th."""

    def test_the_tenth_call_of_a_session_is_warned_about(self):
        guard = Guard.from_preset("zelyx")
        for turn in range(9):
            assert actions(guard, [turn], chat(f"{turn}"), session="run-1") == ["allow"]
        assert actions(guard, [9], chat("9"), session="run-1") == ["warn"]
        assert actions(guard, [10], chat("9"), session="run-2") == ["allow"]

    def test_the_window_rolls(self):
        guard = Guard.from_preset("zelyx")
        assert actions(guard, range(0, 90, 7), session="run-1") == ["allow"] * 13

    def test_block_is_available(self):
        guard = Guard.from_preset("zelyx-block")
        assert actions(guard, range(10), session="s") == ["allow"] * 9 + ["refused"]

    def test_calls_without_a_session_share_a_count_ten_times_as_high(self):
        guard = Guard.from_preset("zelyx")
        done = [actions(guard, [n / 10], chat(f"{n}"))[0] for n in range(100)]
        assert done == ["allow"] * 99 + ["warn"]

    def test_a_project_shares_it_and_callers_without_one_do_not(self):
        guard = Guard.from_preset("zelyx")
        for n in range(99):
            actions(guard, [n / 10], caller=f"c{n}", project="research")
        assert actions(guard, [10], caller="new", project="research") == ["warn"]
        assert actions(guard, [10], caller="new") == ["allow"]

    @pytest.mark.parametrize("name", ["X-Looptrap-Session", "X-Session-Id", "X-Zelyx-Session-Id"])
    def test_the_session_is_read_from_the_known_headers(self, name):
        guard = Guard.from_preset("zelyx")
        assert actions(guard, range(10), headers={name: "run-1"})[-1] == "warn"

    def test_using_tools_is_another_fingerprint(self):
        guard = Guard.from_preset("zelyx")
        with_tools = chat(tools=[{"type": "function", "function": {"name": "search"}}])
        actions(guard, range(9), session="s")
        assert actions(guard, [9], with_tools, session="s") == ["allow"]


def tool_run(calls, result="same"):
    """A chat in which the assistant made these tool calls, one a round."""
    messages = [{"role": "user", "content": "Fix the test"}]
    for number, arguments in enumerate(calls):
        function = {"name": "bash", "arguments": arguments}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = result if isinstance(result, str) else result[number]
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    return {"model": "gpt-5.3", "messages": messages}


class TestTcc:
    """3 consecutive equal tool calls: nudge. More than 15 tool calls in a turn: block."""

    @pytest.mark.parametrize(
        ("calls", "result", "expected"),
        [
            pytest.param(['{"a":1}'] * 2, "same", "allow", id="twice"),
            pytest.param(['{"a":1}'] * 3, "same", "nudge", id="three times"),
            pytest.param(['{"a":1}'] * 3, ["x", "y", "z"], "nudge", id="whatever the results"),
            pytest.param(['{"a":1, "b":2}', '{"b":2,"a":1}'] * 2, "r", "nudge", id="key order"),
            pytest.param(['{"a":1}', '{"a":2}', '{"a":1}'], "r", "allow", id="not consecutive"),
            pytest.param([f"{n}" for n in range(15)], "same", "allow", id="15 calls"),
            pytest.param([f"{n}" for n in range(16)], "same", "refused", id="16 calls"),
        ],
    )
    def test_walk(self, calls, result, expected):
        assert actions(Guard.from_preset("tcc"), [0], tool_run(calls, result)) == [expected]

    def test_a_user_message_begins_a_new_turn(self):
        run = tool_run([f"{n}" for n in range(16)])
        run["messages"].append({"role": "user", "content": "Good. Now the docs."})
        assert actions(Guard.from_preset("tcc"), [0], run) == ["allow"]


class TestHistory:
    """A refused history is refused for its cooldown; then one call passes as a probe."""

    def guard(self):
        return Guard.from_preset("default")

    def same(self, rounds):
        return tool_run(['{"cmd":"ls"}'] * rounds)

    def test_five_equal_rounds_are_refused(self):
        guard = self.guard()
        assert actions(guard, [0], self.same(3)) == ["allow"]
        assert actions(guard, [1], self.same(4)) == ["warn"]
        error = refusal(guard, 2, self.same(5))
        assert (error.rule, error.hit_count, error.cooldown_seconds) == ("no-progress", 5, 30)
        assert error.fingerprint.startswith("1h-")

    def test_after_the_cooldown_one_call_passes_and_no_more(self):
        guard = self.guard()
        done = actions(guard, [0, 29, 31, 32, 61, 63], self.same(5))
        assert done == ["refused", "refused", "warn", "refused", "refused", "warn"]

    def test_after_the_probe_another_repeat_is_refused_at_once(self):
        guard = self.guard()
        assert actions(guard, [0, 31], self.same(5)) == ["refused", "warn"]
        assert actions(guard, [32], self.same(6)) == ["refused"]

    def test_every_turn_that_was_wasted_makes_the_next_wait_twice_as_long(self):
        guard = self.guard()
        waits = [refusal(guard, n, self.same(rounds)) for n, rounds in enumerate(range(5, 16))]
        assert [error.cooldown_seconds for error in waits][:8] == [
            30, 60, 120, 240, 480, 960, 1800, 1800,
        ]  # fmt: skip

    @pytest.mark.parametrize("rounds", [5, 9, 40, 3_000], ids="{} rounds".format)
    def test_a_first_refusal_lasts_as_long_as_the_rule_says(self, rounds):
        assert refusal(self.guard(), 0, self.same(rounds)).cooldown_seconds == 30

    def test_a_first_refusal_by_any_signal_lasts_as_long_as_the_rule_says(self):
        # Twenty rounds of which most results had come before: far above the threshold at once.
        run = tool_run([f'{{"cmd":"{cmd}"}}' for _ in range(11) for cmd in ("a", "b", "c")])
        waits = {error.cooldown_seconds for error in [refusal(self.guard(), 0, run)]}
        assert waits == {30}

    def test_a_second_loop_of_the_same_run_begins_with_the_wait_of_a_first(self):
        guard, asked = self.guard(), ['{"cmd":"ls"}'] * 5
        assert refusal(guard, 0, tool_run(asked)).cooldown_seconds == 30
        asked += [f'{{"cmd":"cat {n}"}}' for n in range(12)]
        results = ["same"] * 5 + [f"new {n * 7919}" for n in range(12)]
        assert actions(guard, [100], tool_run(asked, results)) == ["allow"]
        asked, results = asked + ['{"cmd":"pwd"}'] * 5, results + ["here"] * 5
        assert refusal(guard, 200, tool_run(asked, results)).cooldown_seconds == 30

    def test_a_client_that_waits_out_every_cooldown_gets_few_calls_through_in_a_night(self):
        guard, clock, passed, rounds = self.guard(), 0.0, 0, 5
        while clock < 8 * 3600:
            try:
                guard.check(self.same(rounds), now=T + clock)
            except LoopDetectedError as error:
                clock += error.cooldown_seconds + 1
            else:
                passed, rounds = passed + 1, rounds + 1
        assert passed < 24

    def test_after_the_probe_a_changed_approach_passes(self):
        guard = self.guard()
        assert actions(guard, [0, 31], self.same(5)) == ["refused", "warn"]
        changed = tool_run(['{"cmd":"ls"}'] * 5 + ['{"cmd":"cat"}'], ["same"] * 5 + ["new"])
        assert actions(guard, [32], changed) == ["allow"]

    def test_a_release_pardons_that_evidence(self):
        guard = self.guard()
        error = refusal(guard, 0, self.same(5))
        assert guard.release(error.fingerprint, now=T + 1)
        assert actions(guard, [2], self.same(5)) == ["warn"]
        assert actions(guard, [3], self.same(6)) == ["refused"]

    def test_other_callers_are_not_held_to_it(self):
        guard = self.guard()
        actions(guard, [0], self.same(5), caller="one")
        assert refusal(guard, 1, self.same(5), caller="two").cooldown_seconds == 30

    def test_a_history_that_the_provider_keeps_says_nothing(self):
        guard = self.guard()
        for turn in range(8):
            call = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
            output = {"type": "function_call_output", "call_id": "c", "output": "same"}
            asked = {"model": "m", "input": [call, output] * 6, "previous_response_id": f"r{turn}"}
            assert actions(guard, [turn], asked) == ["allow"]


def read_and_admit(guard, time, path="/v1/chat/completions", query="", method="POST", **identity):
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}' if method == "POST" else b""
    request = Request(method=method, path=path, query=query, body=body, **identity)
    return guard.admit(read(request), T + time)


def rule(name="r", watch="conversation", thresholds=None, **settings):
    return Rule(name=name, watch=watch, ladder=Ladder(thresholds or {Action.BLOCK: 2}), **settings)


def policy(*rules, name="p", **settings):
    return Policy(name=name, rules=rules, **settings)


def test_the_severest_verdict_wins():
    guard = Guard([policy(rule("w", thresholds={Action.WARN: 2}), rule("b"))])
    actions(guard, [0])
    assert refusal(guard, 1).rule == "b"


def test_on_a_tie_the_first_rule_wins():
    guard = Guard([policy(rule("first"), rule("second"))])
    actions(guard, [0])
    assert refusal(guard, 1).rule == "first"


def test_a_ladder_climbs():
    ladder = {Action.WARN: 2, Action.THROTTLE: 3, Action.BLOCK: 4}
    guard = Guard([policy(rule(thresholds=ladder, cooldown=30))])
    assert actions(guard, range(4)) == ["allow", "warn", "throttle", "refused"]


def test_a_stop_escalates_to_a_block_during_its_cooldown():
    guard = Guard([policy(rule(thresholds={Action.STOP: 2, Action.BLOCK: 4}, cooldown=30))])
    taken = [read_and_admit(guard, time).verdict.action for time in range(4)]
    assert taken == [Action.ALLOW, Action.STOP, Action.STOP, Action.BLOCK]


@pytest.mark.parametrize(("extend", "left"), [(False, 20), (True, 30)])
def test_a_refusal_extends_the_cooldown_only_when_the_rule_says_so(extend, left):
    guard = Guard([policy(rule(cooldown=30, extend=extend))])
    actions(guard, [0, 1])
    assert refusal(guard, 11).cooldown_seconds == left
    assert refusal(guard, 11).cooldown_seconds == left


def test_a_cooldown_from_before_a_rule_was_made_milder_refuses_nothing():
    strict = Guard([policy(rule(cooldown=30))], secret=b"k")
    actions(strict, [0, 1])
    milder = policy(rule(thresholds={Action.WARN: 9}, cooldown=30))
    assert actions(Guard([milder], secret=b"k", store=strict.store), [2]) == ["allow"]


def test_shadow_says_what_would_have_happened_and_enforces_nothing():
    guard = Guard([policy(rule(), mode="shadow")])
    read_and_admit(guard, 0)
    ticket = read_and_admit(guard, 1)
    assert ticket.verdict.action is Action.ALLOW
    assert ticket.shadow.action is Action.BLOCK


def test_shadow_counts_never_touch_enforced_ones():
    shadow = Guard([policy(rule(), mode="shadow")], secret=b"k")
    enforced = Guard([policy(rule())], secret=b"k", store=shadow.store)
    for time in range(5):
        read_and_admit(shadow, time)
    assert read_and_admit(enforced, 6).verdict.action is Action.ALLOW


def test_a_disabled_rule_counts_nothing():
    guard = Guard([policy(rule(enabled=False))])
    assert actions(guard, range(5)) == ["allow"] * 5
    assert len(guard.store) == 0


class TestProjects:
    def guard(self, **settings):
        return Guard([policy(rule(cooldown=10))], projects=[Project(name="lab", **settings)])

    def test_a_project_has_a_threshold_of_its_own(self):
        guard = self.guard(threshold=4)
        assert actions(guard, range(4), project="lab") == ["allow"] * 3 + ["refused"]
        assert actions(guard, range(2), caller="elsewhere") == ["allow", "refused"]

    def test_detection_off(self):
        assert actions(self.guard(detection="off"), range(9), project="lab") == ["allow"] * 9

    def test_detection_in_shadow(self):
        guard = self.guard(detection="shadow")
        read_and_admit(guard, 0, project="lab")
        ticket = read_and_admit(guard, 1, project="lab")
        assert (ticket.verdict.action, ticket.shadow.action) == (Action.ALLOW, Action.BLOCK)

    def test_window_cooldown_and_action(self):
        guard = self.guard(window=5, cooldown=7, action=Action.STOP)
        assert actions(guard, [0, 6], project="lab") == ["allow", "allow"]
        ticket = read_and_admit(guard, 0, project="lab")
        ticket = read_and_admit(guard, 1, project="lab")
        assert (ticket.verdict.action, ticket.verdict.cooldown_left) == (Action.STOP, 7)

    def test_an_unknown_project_has_the_policies_as_they_are(self):
        assert actions(self.guard(threshold=9), range(2), project="?") == ["allow", "refused"]


@pytest.mark.parametrize(
    ("select", "binds"),
    [
        pytest.param({}, True, id="everything"),
        pytest.param({"path_exact": "/v1/chat/completions"}, True, id="exact path"),
        pytest.param({"path_exact": "/v1/chat"}, False, id="another exact path"),
        pytest.param({"path_prefix": "/v1/"}, True, id="prefix"),
        pytest.param({"path_prefix": "/v2/"}, False, id="another prefix"),
        pytest.param({"methods": ("POST",)}, True, id="method"),
        pytest.param({"methods": ("PUT", "GET")}, False, id="other methods"),
        pytest.param({"hosts": ("API.example.com",)}, True, id="host"),
        pytest.param({"hosts": ("example.com",)}, False, id="another host"),
        pytest.param({"headers": (("x-team", "a"),)}, True, id="header"),
        pytest.param({"headers": (("X-Team", "*"),)}, True, id="header present"),
        pytest.param({"headers": (("x-team", "b"),)}, False, id="another value"),
        pytest.param({"headers": (("x-none", "*"),)}, False, id="header absent"),
        pytest.param({"models": ("m*",)}, True, id="model pattern"),
        pytest.param({"models": ("gpt-*", "claude-*")}, False, id="other models"),
        pytest.param({"path_prefix": "/v1/", "methods": ("GET",)}, False, id="all must match"),
    ],
)
def test_selectors(select, binds):
    guard = Guard([policy(rule(), select=Selector(**select))])
    headers = [(b"host", b"api.example.com:4100"), (b"x-team", b"a")]
    read_and_admit(guard, 0, headers=headers)
    ticket = read_and_admit(guard, 1, headers=headers)
    assert ticket.verdict.action.refuses is binds


@pytest.mark.parametrize(
    ("methods", "expected"), [((), Action.ALLOW), (("GET",), Action.BLOCK)], ids=["no", "yes"]
)
def test_repeated_reads_count_only_when_selected(methods, expected):
    guard = Guard([policy(rule(watch="request"), select=Selector(methods=methods))])
    read_and_admit(guard, 0, "/v1/things", method="GET")
    assert read_and_admit(guard, 1, "/v1/things", method="GET").verdict.action is expected


class TestMcp:
    def call(self, guard, time, request_id, arguments):
        body = (
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"search",'
            b'"arguments":%s}}' % (request_id, arguments)
        )
        return guard.admit(read(Request(path="/mcp", body=body)), T + time).verdict.action

    def test_equal_tool_calls_count_whatever_their_ids(self):
        guard = Guard([policy(rule(watch="tool", thresholds={Action.WARN: 3}))])
        assert self.call(guard, 0, 1, b'{"q":"a","n":1}') is Action.ALLOW
        assert self.call(guard, 1, 2, b'{"n": 1, "q": "a"}') is Action.ALLOW
        assert self.call(guard, 2, 3, b'{"q":"b"}') is Action.ALLOW
        assert self.call(guard, 3, 4, b'{"q":"a","n":1}') is Action.WARN


class TestKillSwitches:
    def guard(self, **settings):
        return Guard([], kill_switches=[KillSwitch(**settings)])

    def test_refuses_at_once_with_its_reason(self):
        guard = self.guard(match=(("caller", "leaked"),), reason="credential leaked")
        error = refusal(guard, 0, caller="leaked")
        assert isinstance(error, KilledError)
        assert "credential leaked" in error.message
        assert str(error).startswith("Blocked (killed): ")
        assert actions(guard, [0], caller="honest") == ["allow"]

    @pytest.mark.parametrize(
        ("match", "killed"),
        [
            ((("model", "m"),), True),
            ((("session", "s"),), True),
            ((("header:x-team", "a"),), True),
            ((("header:x-team", "b"),), False),
            ((("model", "m"), ("header:x-team", "b")), False),
        ],
    )
    def test_matches_descriptors(self, match, killed):
        ticket = read_and_admit(
            self.guard(match=match), 0, session="s", headers=[(b"x-team", b"a")]
        )
        assert (ticket.verdict.reason == "killed") is killed

    def test_expires(self):
        guard = self.guard(match=(("model", "m"),), expires=datetime.fromtimestamp(T + 10, UTC))
        assert read_and_admit(guard, 9.9).verdict.action is Action.BLOCK
        assert read_and_admit(guard, 10).verdict.action is Action.ALLOW


def test_the_tally_says_what_was_decided_and_what_became_of_it():
    guard = Guard([policy(rule())])
    first = read_and_admit(guard, 0)
    guard.settle(first, Outcome(status=200, usage=Usage(10, 2)))
    guard.settle(read_and_admit(guard, 1))
    tally = guard.tally
    assert tally.verdicts == {Action.ALLOW: 1, Action.BLOCK: 1}
    assert tally.rules == {("p", "r", Action.BLOCK): 1}
    assert (tally.statuses, tally.input_tokens, tally.output_tokens) == ({200: 1}, 10, 2)


callers = st.text(max_size=8)


@given(st.lists(st.tuples(callers, callers, callers), max_size=30), callers)
def test_distinct_callers_never_share_counts_whatever_they_claim(others, mine):
    guard = Guard.from_preset("default")
    actions(guard, range(5), caller=mine, session="s")
    for caller, session, user in others:
        if caller != mine:
            actions(guard, [5], chat(user=user), caller=caller, session=session)
            actions(guard, [5], caller=caller, session="s")
    assert refusal(guard, 6, caller=mine, session="s").hit_count == 6


@given(hits=st.integers(1, 30), more=st.integers(0, 30))
def test_one_more_call_never_softens_the_verdict(hits, more):
    ladder = {Action.WARN: 3, Action.THROTTLE: 7, Action.STOP: 11, Action.BLOCK: 17}
    guard = Guard([policy(rule(thresholds=ladder, cooldown=5))])
    taken = [read_and_admit(guard, n / 10).verdict.action.severity for n in range(hits + more)]
    assert taken == sorted(taken)


def run(rounds, tool="check_disk", result="full"):
    """Return a request whose history is one call over and over."""
    messages = [{"role": "user", "content": "Free some space on the disk, please."}]
    for n in range(rounds):
        called = {"id": f"c{n}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [called]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": result})
    return {"model": "m", "messages": messages}


class TestProgress:
    """The application says that it got on: histories begin anew, and nothing else does."""

    NO_PROGRESS = rule("stuck", watch="repeat", thresholds={Action.BLOCK: 3}, cooldown=30)

    def guard(self, *rules):
        return Guard([policy(*(rules or (self.NO_PROGRESS,)))])

    def ask(self, guard, rounds, token="", time=0.0, **options):
        headers = {"X-Looptrap-Progress": token} if token else {}
        return actions(guard, [time], run(rounds), headers=headers, **options)[0]

    def test_a_new_word_begins_the_history_anew(self):
        guard = self.guard()
        assert self.ask(guard, 3) == "refused"
        assert self.ask(guard, 4, "step 2") == "allow"

    def test_from_then_on_rounds_count_again(self):
        guard = self.guard()
        done = [self.ask(guard, 5 + n, "step 2", time=n) for n in range(4)]
        assert done == ["allow", "allow", "allow", "refused"]

    def test_at_most_twenty_times_a_session(self):
        guard = self.guard()
        done = [self.ask(guard, 5 + n, f"step {n}", time=n) for n in range(24)]
        assert done == ["allow"] * 20 + ["refused"] * 4

    def test_sessions_and_callers_have_words_of_their_own(self):
        guard = self.guard()
        for n in range(25):
            self.ask(guard, 5, f"step {n}", caller="one", session="a")
        assert self.ask(guard, 5, "mine", caller="one", session="b") == "allow"
        assert self.ask(guard, 5, "mine", caller="two", session="a") == "allow"
        assert self.ask(guard, 5, "mine", caller="one", session="a") == "refused"

    def test_a_new_session_with_every_request_does_not_switch_detection_off(self):
        guard = self.guard()
        done = [self.ask(guard, 5, f"step {n}", time=n, session=f"s{n}") for n in range(24)]
        assert done == ["allow"] * 20 + ["refused"] * 4
        assert self.ask(guard, 5, "step", time=24, caller="another", session="s") == "allow"

    def test_equal_requests_are_counted_all_the_same(self):
        guard = self.guard(rule("equal", thresholds={Action.BLOCK: 3}, cooldown=30))
        done = [self.ask(guard, 1, f"step {n}") for n in range(4)]
        assert done == ["allow"] * 2 + ["refused"] * 2


class TestTools:
    """What the operator knows of a tool goes before what the rules say."""

    RULES = (
        rule("stuck", watch="repeat", thresholds={Action.WARN: 3, Action.BLOCK: 5}),
        rule("failing", watch="same_error", thresholds={Action.BLOCK: 5}),
    )

    def guard(self, **tools):
        return Guard([policy(*self.RULES)], tools=tools)

    @pytest.mark.parametrize(
        ("rounds", "expected"), [(19, "allow"), (20, "warn"), (59, "warn"), (60, "refused")]
    )
    @pytest.mark.parametrize("tool", ["check_disk", "poll_job"])
    def test_thresholds_of_its_own_counted_in_full(self, tool, rounds, expected):
        ladder = Ladder({Action.WARN: 20, Action.BLOCK: 60})
        guard = self.guard(**{tool: ToolRule(ladder=ladder)})
        assert actions(guard, [0], run(rounds, tool)) == [expected]

    def test_they_hold_for_every_history_rule(self):
        guard = self.guard(check_disk=ToolRule(ladder=Ladder({Action.BLOCK: 9})))
        failing = run(8, result="Error: no such device")
        assert actions(guard, [0], failing) == ["allow"]
        assert actions(guard, [0], run(9, result="Error: no such device")) == ["refused"]

    def test_other_tools_keep_the_rules_thresholds(self):
        guard = self.guard(poll_job=ToolRule(exempt=True))
        assert actions(guard, [0], run(5)) == ["refused"]

    def test_an_exempt_tool_is_never_a_loop(self):
        guard = self.guard(check_disk=ToolRule(exempt=True))
        assert actions(guard, [0], run(50)) == ["allow"]

    def test_exempt_rounds_between_hide_no_loop(self):
        guard = self.guard(wait=ToolRule(exempt=True))
        loop, wait = run(5)["messages"], run(1, "wait", "ok")["messages"][1:]
        mixed = loop[:1]
        for start in range(1, len(loop), 2):
            mixed += wait + loop[start : start + 2]
        assert actions(guard, [0], {"model": "m", "messages": mixed}) == ["refused"]
        assert actions(guard, [1], {"model": "m", "messages": mixed + wait}) == ["allow"]


def test_time_may_be_a_whole_number():
    guard = Guard.from_preset("default", secret=b"test")
    for second in range(5):
        guard.conclude(guard.check(chat(), now=int(T) + second), Outcome(200), now=int(T) + second)
    with pytest.raises(LoopDetectedError):
        guard.check(chat(), now=int(T) + 5)


def test_an_agent_whose_history_grows_does_not_send_the_same_again():
    """In plain text no id tells rounds apart: edit, check, edit, check, and all goes well."""
    guard = Guard.from_preset("default", secret=b"test")
    messages = [{"role": "user", "content": "Tidy up the parser."}]
    for number in range(40):
        command = "make lint" if number % 2 else f"sed -i s/x{number}/y/ parser.py"
        output = "All checks passed!" if number % 2 else ""
        messages += [
            {"role": "assistant", "content": f"```bash\n{command}\n```"},
            {"role": "user", "content": f"<returncode>0</returncode>\n<output>{output}</output>"},
        ]
        ticket = guard.check({"model": "m", "messages": messages}, now=T + 3 * number)
        guard.conclude(ticket, Outcome(200), now=T + 3 * number + 2)
        assert ticket.verdict.action is Action.ALLOW


def test_one_whose_window_slides_does():
    guard = Guard.from_preset("default", secret=b"test")
    window = [
        {"role": "assistant", "content": "```bash\nmake\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>nothing</output>"},
    ]
    for number in range(5):
        ticket = guard.check({"model": "m", "messages": window * 2}, now=T + 3 * number)
        guard.conclude(ticket, Outcome(200), now=T + 3 * number + 2)
    with pytest.raises(LoopDetectedError):
        guard.check({"model": "m", "messages": window * 2}, now=T + 15)
