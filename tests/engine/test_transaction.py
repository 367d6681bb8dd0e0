"""A transaction: what it asks the store, what is to be done, and what its answer says."""

import json

import pytest

from looptrap import Guard, LoopDetectedError
from looptrap.dialect.content import encode
from looptrap.dialect.dialect import ModelAnswer
from looptrap.dialect.model import NO_USAGE, Request, ToolCall, Usage
from looptrap.dialect.registry import DIALECTS, read
from looptrap.engine import PolicyEngine, RequestIds, Ticket, Transaction
from looptrap.money.price import Prices, PriceSettings
from looptrap.policy import preset
from looptrap.policy.action import Action, Ladder
from looptrap.policy.policy import Policy
from looptrap.policy.rule import Rule
from looptrap.policy.verdict import Verdict
from looptrap.store.memory import MemoryStore

T = 1_800_000_000.0
CHAT = "/v1/chat/completions"
PRICES = Prices({"m": PriceSettings(input=1.0, output=2.0, context_window=1_000)})
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}}],
    "usage": {"prompt_tokens": 1_000, "completion_tokens": 500, "total_tokens": 1_500},
}


def call(text="Again?", path=CHAT, **more):
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
    return read(Request("POST", path, body=json.dumps(body).encode(), caller="ci"))


def response_call(**more):
    body = {"model": "m", "input": "Again?", **more}
    return read(Request("POST", "/v1/responses", body=json.dumps(body).encode(), caller="ci"))


def response(of, text):
    """Return an answer to a call, with a text and a tool call."""
    writer = DIALECTS[of.dialect].writer
    made = ModelAnswer(of, {}, "1", int(T), [text], [ToolCall("", "look", '{"at": 1}')])
    return b"".join(writer.stream(made)) if of.stream else encode(writer.body(made))


def judged(action, reason="loop_detected", *, of=None, request_id=b"r-1", **more):
    """Return a transaction that was judged so."""
    of = of or call()
    transaction = Transaction(PolicyEngine([], prices=PRICES), of, request_id=request_id)
    verdict = Verdict(action=action, reason=reason, rule="r", message="Blocked: r.", **more)
    transaction.ticket = Ticket(of, verdict)
    return transaction


def answered(transaction, body, *, length=None, status=200):
    transaction.on_head(status, length, is_encoded=False)
    return transaction.on_chunk(body)


class TestJudging:
    def test_asks_the_store_once_where_nothing_follows(self):
        store = MemoryStore()
        transaction = Transaction(PolicyEngine(preset.load("default")), call())
        plan = transaction.plan(T)
        assert plan.hits
        assert not transaction.count(store.hit(plan.hits, T, retry=False))
        assert transaction.ticket.verdict.action is Action.ALLOW

    def test_asks_again_for_the_prompt_that_a_prompt_contains(self):
        engine, store = PolicyEngine(preset.load("default")), MemoryStore()
        prompt = "Fix the build of the second module, please, and run all of its tests."
        asked = []
        for attempt in range(3):
            transaction = Transaction(engine, call(f"{'It failed. ' * attempt}{prompt}"))
            query = transaction.plan(T + attempt)
            while query is not None:
                asked.append(len(query.hits))
                query = transaction.count(store.hit(query.hits, T + attempt, retry=False))
        assert len(asked) == 4, "twice for the third, which contains the second"
        assert isinstance(transaction.ticket, Ticket)

    def test_the_sixth_equal_call_is_refused_whoever_drives_it(self):
        guard, engine = (
            Guard.from_preset(secret=b"s"),
            PolicyEngine(preset.load("default"), secret=b"s"),
        )
        store = MemoryStore()
        for number in range(7):
            own = guard.admit(call(), T + number)
            other = Transaction(engine, call()).judge_by(store, T + number)
            store.answer(other.streaks, T + number)
            assert own.verdict == other.verdict
        assert own.verdict.action.refuses


class TestEnforcing:
    @pytest.mark.parametrize(
        ("action", "answers", "waits", "nudges"),
        [
            (Action.ALLOW, None, False, False),
            (Action.WARN, None, False, False),
            (Action.THROTTLE, None, True, False),
            (Action.NUDGE, None, False, True),
            (Action.STOP, 200, False, False),
            (Action.BLOCK, 429, False, False),
        ],
    )
    def test_says_what_to_do_for_each_action(self, action, answers, waits, nudges):
        transaction = judged(action, delay=2.0 if action is Action.THROTTLE else 0.0)
        transaction.enforce(T)
        assert (transaction.answer and transaction.answer.status) == answers
        assert bool(transaction.delay) is waits
        assert (transaction.body is not None) is nudges

    def test_what_cannot_end_a_run_refuses_and_counts_as_a_block(self):
        transaction = judged(Action.STOP)
        transaction.enforce(T, can_end=False)
        assert transaction.answer.status == 429
        assert transaction.ticket.verdict.action is Action.BLOCK

    def test_what_cannot_change_the_body_lets_it_pass(self):
        transaction = judged(Action.NUDGE)
        transaction.enforce(T, can_nudge=False)
        assert (transaction.answer, transaction.body) == (None, None)

    @pytest.mark.parametrize(("reason", "refuses"), [
        ("loop_detected", True),
        ("budget_threshold", False),
    ])  # fmt: skip
    def test_a_call_that_cannot_wait_is_refused_unless_its_budget_covers_it(self, reason, refuses):
        transaction = judged(Action.THROTTLE, reason, delay=2.0)
        transaction.enforce(T)
        transaction.skip_delay()
        assert transaction.delay == 0
        assert (transaction.answer is not None) is refuses

    def test_refuses_in_another_dialect_where_one_is_given(self):
        messages = call(path="/v1/messages", max_tokens=9)
        own, other = judged(Action.BLOCK, of=messages), judged(Action.BLOCK, of=messages)
        own.enforce(T)
        other.enforce(T, dialect="openai_chat")
        assert json.loads(own.answer.body)["type"] == "error"
        assert json.loads(other.answer.body)["error"]["code"] == "recursive_loop_detected"

    def test_raises_what_guards_raise(self):
        judged(Action.WARN).raise_refusal()
        with pytest.raises(LoopDetectedError):
            judged(Action.BLOCK).raise_refusal()


class TestRequestIds:
    def test_the_clients_own_is_kept(self):
        assert judged(Action.ALLOW, request_id=b"mine").make_request_id() == b"mine"

    def test_one_is_made_when_it_is_needed_and_stays(self):
        transaction = judged(Action.ALLOW, request_id=b"")
        assert transaction.request_id == b""
        assert transaction.make_request_id() == transaction.make_request_id() != b""

    def test_none_is_made_twice(self):
        one, other = RequestIds(), RequestIds()
        made = [ids.new() for ids in (one, other) for _ in range(100)]
        assert len(set(made)) == 200


class TestAnswers:
    def test_costs_what_the_provider_reports(self):
        transaction = judged(Action.ALLOW)
        body = json.dumps(ANSWER).encode()
        assert answered(transaction, body, length=len(body)) == body
        assert transaction.cost_header(T) == (b"X-Looptrap-Cost-Usd", b"0.002")
        outcome = transaction.outcome(T, cut_off=False)
        assert (outcome.status, outcome.cost) == (200, 2_000_000)
        assert outcome.usage == Usage(1_000, 500)

    def test_an_error_costs_nothing(self):
        transaction = judged(Action.ALLOW)
        answered(transaction, b'{"error": {}}', length=13, status=500)
        outcome = transaction.outcome(T, cut_off=False)
        assert (outcome.status, outcome.usage, outcome.cost) == (500, NO_USAGE, 0)
        assert transaction.cost_header(T) is None

    def test_an_answer_that_is_no_longer_awaited_is_paid_for(self):
        transaction = judged(Action.ALLOW, of=call(max_tokens=300))
        transaction.lose(T)
        outcome = transaction.outcome(T, cut_off=True)
        assert outcome.usage.is_estimated
        assert outcome.usage.output_tokens == 300
        assert outcome.cost > 0

    def test_each_lost_attempt_counts_beside_the_answer(self):
        transaction = judged(Action.ALLOW, of=call(max_tokens=300))
        transaction.lose(T)
        transaction.lose(T)
        body = json.dumps(ANSWER).encode()
        answered(transaction, body, length=len(body))
        assert transaction.outcome(T, cut_off=False).usage.output_tokens == 300 + 300 + 500

    def test_a_chant_is_cut_where_a_rule_says_so(self):
        ladder = Ladder({Action.BLOCK: 10})
        policy = Policy(name="p", rules=(Rule(name="chant", watch="chant", ladder=ladder),))
        guard = Guard([policy], prices=PRICES)
        transaction = guard.begin(Transaction(guard, call(stream=True)), T)
        transaction.on_head(200, None, is_encoded=False)
        said = "I will try that again now, in the same way as before. "
        event = f'data: {{"choices": [{{"index": 0, "delta": {{"content": "{said}"}}}}]}}\n\n'
        passed = 0
        while not transaction.is_cut and passed < 1_000:
            passed += 1
            last = transaction.on_chunk(event.encode())
        assert 10 <= passed < 1_000
        assert last.endswith(b"data: [DONE]\n\n")
        outcome = transaction.outcome(T, cut_off=True)
        assert outcome.cut_off
        assert outcome.usage.output_tokens > 100
        assert transaction.ticket.heard.action is Action.BLOCK

    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "in one piece"])
    @pytest.mark.parametrize("words", [1, 5_000], ids=["short", "long"])
    @pytest.mark.parametrize("preset_name", ["default", "zelyx"], ids=["judged", "not judged"])
    def test_the_turn_is_known_where_the_provider_keeps_it(self, stream, words, preset_name):
        guard = Guard.from_preset(preset_name, prices=PRICES)
        asked = response_call(stream=stream)
        transaction = guard.begin(Transaction(guard, asked), T)
        body = response(asked, " ".join(f"word{n}" for n in range(words)))
        transaction.on_head(200, None if stream else len(body), is_encoded=False)
        passed = [transaction.on_chunk(body[at : at + 999]) for at in range(0, len(body), 999)]
        assert b"".join(passed) == body
        before = transaction.answered()
        transaction.outcome(T, cut_off=False)
        assert before == transaction.answered()
        assert [(made.name, made.arguments) for made in before.calls] == [("look", '{"at":1}')]
        assert before.response_id == "resp_1"

    @pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
    @pytest.mark.parametrize("stream", [True, False], ids=["streamed", "in one piece"])
    def test_the_calls_are_known_where_the_ticket_needs_them(self, path, stream):
        asked = call(path=path, stream=stream)
        for is_needed in (True, False):
            transaction = judged(Action.ALLOW, of=asked)
            transaction.ticket.reads_answer = is_needed
            body = response(asked, "Let me look.")
            assert answered(transaction, body) == body
            turn = transaction.answered()
            assert (turn is not None) is is_needed
            assert turn is None or [made.name for made in turn.calls] == ["look"]

    @pytest.mark.parametrize(("of", "status", "is_encoded"), [
        (lambda: response_call(store=False), 200, False),
        (lambda: response_call(), 500, False),
        (lambda: response_call(), 200, True),
        (call, 200, False),
    ], ids=["not kept", "an error", "encoded", "another API"])  # fmt: skip
    def test_no_turn_is_known_of_other_answers(self, of, status, is_encoded):
        transaction = judged(Action.ALLOW, of=of())
        transaction.on_head(status, None, is_encoded=is_encoded)
        transaction.on_chunk(response(response_call(), "Yes."))
        assert transaction.answered() is None

    def test_no_turn_is_known_before_an_answer_and_once_it_passes_unread(self):
        transaction = judged(Action.ALLOW, of=response_call())
        assert transaction.answered() is None
        answered(transaction, response(response_call(), "Yes."))
        transaction.stop_reading()
        assert transaction.answered() is None

    def test_what_is_no_longer_read_passes(self):
        transaction = judged(Action.ALLOW)
        transaction.on_head(200, None, is_encoded=False)
        transaction.stop_reading()
        assert transaction.on_chunk(b"more") == b"more"
        assert transaction.outcome(T, cut_off=False).usage is NO_USAGE
