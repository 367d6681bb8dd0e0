"""A tool that changes something does so once, or is not tried again."""

import asyncio
import threading

import pytest
from tests.retry.failing import Answer, Fake, down
from tests.store.serving import server

from looptrap.errors import GiveUp, IdempotencyError
from looptrap.retry import RetryPolicy, Turn, attempts, call, mutating, retrying, testing
from looptrap.retry.idempotency import MemoryLedger, StoreLedger, current_key, idempotent
from looptrap.store.redis import RedisStore


class Mail:
    """A tool that sends, and may fail after it has sent."""

    def __init__(self, *errors):
        self._errors = list(errors)
        self.sent = []
        self.keys = []

    def send(self, to):
        self.sent.append(to)
        self.keys.append(current_key())
        if self._errors:
            raise self._errors.pop(0)
        return {"number": len(self.sent)}


class TestWithoutKey:
    def test_it_works_and_a_failure_is_not_retried(self):
        mail = Mail(down())
        send = retrying(mutating(mail.send))
        with testing() as rehearsal:
            with pytest.raises(Answer) as raised:
                send("ada")
            assert send("bob") == {"number": 2}
        assert (mail.sent, rehearsal.waits) == (["ada", "bob"], [])
        assert raised.value.__notes__ == [
            "looptrap: not tried again, since Mail.send changes something and was called"
            " without a key"
        ]

    async def test_nor_is_an_asynchronous_one(self):
        fake = Fake(down())
        with testing(), pytest.raises(Answer):
            await call(mutating(fake.later))
        assert fake.calls == 1

    def test_nor_what_only_contains_it(self):
        mail, after = Mail(), Fake(always=down())
        send = mutating(mail.send)

        @retrying
        def outer():
            @retrying
            def inner():
                send("ada")
                after()

            inner()

        with testing(), pytest.raises(Answer):
            outer()
        assert mail.sent == ["ada"]

    def test_nor_an_attempt_of_a_loop(self):
        mail = Mail(down())

        def looped():
            for attempt in attempts(RetryPolicy()):
                with attempt:
                    mutating(mail.send)("ada")

        with testing(), pytest.raises(Answer):
            looped()
        assert mail.sent == ["ada"]

    def test_what_failed_before_it_is_retried(self):
        mail, before = Mail(), Fake(down())

        @retrying
        def ask_and_send():
            before()
            return mutating(mail.send)("ada")

        with testing():
            assert ask_and_send() == {"number": 1}
        assert before.calls == 2

    def test_outside_of_any_retry_it_is_an_ordinary_function(self):
        assert mutating(Mail().send)("ada") == {"number": 1}


class TestUnderKey:
    def test_it_is_retried_with_the_same_key(self):
        mail = Mail(down(), down())
        with testing(), idempotent("t:1:a"):
            assert retrying(mutating(mail.send))("ada") == {"number": 3}
        assert mail.keys == ["t:1:a"] * 3

    def test_an_empty_key_is_none(self):
        with pytest.raises(IdempotencyError, match="empty"), idempotent(""):
            pass

    def test_outside_there_is_no_key(self):
        with idempotent("a"), idempotent("b"):
            assert current_key() == "b"
        assert current_key() == ""


class TestInATurn:
    def test_each_decision_has_a_key_and_transport_retries_keep_it(self):
        mail = Mail(down(), down())
        send = retrying(mutating(mail.send))
        with testing(), Turn(id="t") as turn:
            turn.call(Fake())
            turn.tool(send, "ada")
            turn.tool(send, "ada")
            turn.call(Fake())
            turn.tool(send, "ada")
        assert mail.keys == ["t:1:#1"] * 3 + ["t:1:#2", "t:2:#3"]

    def test_the_models_own_id_can_name_the_decision(self):
        mail = Mail()
        with Turn(id="t") as turn:
            turn.call(Fake())
            with turn.decision("call_7"):
                turn.tool(mail.send, "ada")
            assert turn.key("call_7") == "t:1:call_7"
        assert mail.keys == ["t:1:call_7"]

    def test_a_tool_inside_a_tool_has_a_key_of_its_own(self):
        mail = Mail()
        with Turn(id="t") as turn, turn.decision("call_7"):
            turn.tool(lambda: turn.tool(mail.send, "ada"))
        assert mail.keys == ["t:0:#2"]

    async def test_asynchronous_tools_have_their_key_while_they_run(self):
        keys = []

        @mutating
        async def send():
            await asyncio.sleep(0)
            keys.append(current_key())

        async with Turn(id="t") as turn:
            await asyncio.gather(turn.tool(send), turn.tool(send))
        assert sorted(keys) == ["t:0:#1", "t:0:#2"]

    def test_a_step_that_sends_without_a_key_is_made_once(self):
        mail = Mail(down())
        with testing(), pytest.raises(GiveUp) as raised, Turn() as turn:
            turn.call(mutating(mail.send), "ada")
        assert (mail.sent, raised.value.marker.attempts) == (["ada"], 1)


class TestLedger:
    def test_the_same_key_brings_the_first_result_again(self):
        mail = Mail()
        send = mutating(ledger=MemoryLedger())(mail.send)
        with idempotent("t:1:a"):
            assert send("ada") == send("ada") == {"number": 1}
        with idempotent("t:1:b"):
            assert send("ada") == {"number": 2}
        assert mail.sent == ["ada", "ada"]

    async def test_asynchronously_too(self):
        fake = Fake()
        send = mutating(ledger=MemoryLedger())(fake.later)
        with idempotent("t:1:a"):
            assert await send("ada") == await send("ada") == "answer"
        assert fake.calls == 1

    def test_other_arguments_under_the_same_key_are_an_error(self):
        mail = Mail()
        send = mutating(ledger=MemoryLedger())(mail.send)
        with idempotent("t:1:a"):
            send("ada")
            with pytest.raises(IdempotencyError, match="other arguments"):
                send("bob")
        assert mail.sent == ["ada"]

    def test_another_function_under_the_same_key_is_an_error(self):
        def order(what):
            raise AssertionError(what)

        ledger = MemoryLedger()
        with idempotent("t:1:a"):
            mutating(ledger=ledger)(Mail().send)("ada")
            with pytest.raises(IdempotencyError, match="another call"):
                mutating(ledger=ledger)(order)("ada")

    def test_a_call_that_failed_is_made_again(self):
        mail = Mail(down())
        send = mutating(ledger=MemoryLedger())(mail.send)
        with testing(), idempotent("t:1:a"):
            assert retrying(send)("ada") == {"number": 2}
            assert send("ada") == {"number": 2}

    def test_without_a_key_the_ledger_is_not_asked(self):
        mail = Mail()
        send = mutating(ledger=MemoryLedger())(mail.send)
        send("ada")
        send("ada")
        assert mail.sent == ["ada", "ada"]

    def test_who_comes_second_waits_and_gets_the_result(self):
        begun, go = threading.Event(), threading.Event()
        calls, results = [], []

        @mutating(ledger=MemoryLedger(), patience=20)
        def slow():
            calls.append(1)
            begun.set()
            go.wait(20)
            return "done"

        def work():
            with idempotent("t:1:a"):
                results.append(slow())

        first, second = threading.Thread(target=work), threading.Thread(target=work)
        first.start()
        begun.wait(20)
        second.start()
        go.set()
        first.join(20)
        second.join(20)
        assert (len(calls), results) == (1, ["done", "done"])

    def test_patience_has_an_end(self):
        ledger = MemoryLedger()

        @mutating(ledger=ledger, patience=5)
        def inside_itself():
            inside_itself()  # the same call, which cannot end before this one does

        patience = pytest.raises(IdempotencyError, match="still being made elsewhere, after 5 s")
        with testing() as rehearsal, idempotent("t:1:a"), patience:
            inside_itself()
        assert sum(rehearsal.waits) == pytest.approx(5)
        assert max(rehearsal.waits) <= 1

    async def test_asynchronous_patience_has_an_end(self):
        ledger = MemoryLedger()
        inside = asyncio.Event()

        @mutating(ledger=ledger, patience=5)
        async def hang():
            inside.set()
            await asyncio.Event().wait()

        with idempotent("t:1:a"):
            task = asyncio.create_task(hang())
            await inside.wait()
            with testing() as rehearsal, pytest.raises(IdempotencyError, match="elsewhere"):
                await hang()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert sum(rehearsal.waits) == pytest.approx(5)

    def test_what_cannot_be_compared_is_told_and_can_be_named(self):
        class Account:
            def __init__(self):
                self.paid = []

            def pay(self, amount):
                self.paid.append(amount)
                return amount

        account = Account()
        plain = mutating(ledger=MemoryLedger())(Account.pay)
        named = mutating(ledger=MemoryLedger(), compare=lambda _self, amount: amount)(Account.pay)
        with idempotent("t:1:a"):
            with pytest.raises(IdempotencyError, match="compare="):
                plain(account, 5)
            named(account, 5)
            named(account, 5)
        assert account.paid == [5]


class TestMistakes:
    def test_a_generator_has_no_one_result(self):
        def items():
            yield 1

        with pytest.raises(TypeError, match="generator"):
            mutating(items)

    def test_an_ordinary_function_cannot_await_a_ledger(self):
        class Remote(MemoryLedger):
            async def begin(self, key, content):
                return super().begin(key, content)

        with pytest.raises(TypeError, match="is not async"):
            mutating(ledger=Remote())(Mail().send)


async def test_in_a_real_store_two_instances_make_a_call_once():
    calls = []

    async def send(to):
        calls.append(to)
        return {"number": len(calls)}

    with server() as valkey:
        stores = [RedisStore(valkey.url, timeout=5) for _ in range(2)]
        for store in stores:
            await store.start()
        try:
            sends = [mutating(ledger=StoreLedger(store))(send) for store in stores]
            with idempotent("t:1:a"):
                assert await asyncio.gather(*(one("ada") for one in sends)) == [{"number": 1}] * 2
        finally:
            for store in stores:
                await store.stop()
    assert calls == ["ada"]
