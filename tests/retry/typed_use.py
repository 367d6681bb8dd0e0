"""How people use the library, for the type checker: `test_typed_use.py` has mypy read this."""

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from looptrap.retry import (
    Chain,
    GiveUp,
    Link,
    RetryPolicy,
    Turn,
    attempts,
    call,
    mutating,
    retrying,
)
from looptrap.retry.idempotency import MemoryLedger

ledger = MemoryLedger()
chain = Chain.of("anthropic/claude-opus-4-7", "openai")


@retrying
def bare(question: str) -> int:
    return len(question)


@retrying(RetryPolicy(attempts=2))
async def ask(question: str, *, loud: bool = False) -> str:
    return question.upper() if loud else question


@retrying(RetryPolicy())
def words(text: str) -> Iterator[str]:
    yield from text.split()


@retrying()
async def words_async(text: str) -> AsyncIterator[str]:
    yield text


@retrying(chain=chain)
def ask_anyone(link: Link, question: str) -> str:
    return f"{link.name}: {question}"


@mutating(ledger=ledger)
def send(to: str, text: str) -> dict[str, str]:
    return {to: text}


@mutating
async def order(item: str) -> int:
    return len(item)


async def main() -> None:
    assert_type(bare("how long?"), int)
    assert_type(await ask("who?", loud=True), str)
    assert_type(list(words("a b")), list[str])
    assert_type([word async for word in words_async("a")], list[str])
    assert_type(ask_anyone("who?"), str)
    assert_type(call(len, "who?"), int)
    assert_type(await call(ask, "who?"), str)
    assert_type(await order("ink"), int)
    for attempt in attempts(RetryPolicy()):
        with attempt:
            assert_type(attempt.number, int)
    async with Turn(steps=4, usd=0.5) as turn:
        assert_type(await turn.call(ask, "who?", loud=True), str)
        assert_type(turn.tool(send, "ada", "hello"), dict[str, str])
        assert_type(turn.failover(chain, lambda link: link.provider), str)
        assert_type(await turn.parsed(ask, "a number, please", int), int)
        assert_type(turn.parsed(str.upper, "7", int), int)
    with Turn.from_headers({"X-Looptrap-Turn": "t"}, steps=2) as turn:
        assert_type(turn.headers(), dict[str, str])


def wrong() -> None:
    bare(3)  # type: ignore[arg-type]
    ask_anyone(chain.links[0], "who?")  # type: ignore[arg-type, call-arg]
    call(len, 3)  # type: ignore[arg-type]
    Turn(step=3)  # type: ignore[call-arg]
    raise GiveUp(None)
