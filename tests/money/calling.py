"""Calls whose cost is easy to tell, and a guard that charges them."""

import msgspec

from looptrap import Guard
from looptrap.dialect.model import Call, Request, Usage
from looptrap.dialect.registry import read
from looptrap.engine import Ticket
from looptrap.money.price import Prices, PriceSettings, nano
from looptrap.policy.budget import Budget
from looptrap.policy.policy import Policy
from looptrap.policy.rate import Rate

T = 1_800_000_000.0
"""A Friday, 08:00 UTC."""

CENT = 10_000
"""Tokens of an answer that cost a cent; what is sent costs nothing."""

PRICES = Prices({"m": PriceSettings(input=0, output=1)})


def call(
    most: int = CENT,
    *,
    caller: str = "c",
    project: str = "",
    session: str = "",
    turn: str = "",
    limit_usd: float | None = None,
    claims: dict | None = None,
    headers: dict | None = None,
    query: str = "",
    model: str = "m",
    text: str = "Hello",
) -> Call:
    """A chat call whose answer has `most` tokens at most."""
    sent = dict(headers or {})
    if turn:
        sent["x-looptrap-turn"] = turn
    messages = [{"role": "user", "content": text}]
    body = {"model": model, "max_tokens": most, "messages": messages}
    return read(
        Request(
            path="/v1/chat/completions",
            query=query,
            headers=[(name.encode(), value.encode()) for name, value in sent.items()],
            body=msgspec.json.encode(body),
            caller=caller,
            project=project,
            session=session,
            claims=claims or {},
            session_limit=None if limit_usd is None else nano(limit_usd),
        )
    )


def budgeted(*budgets: Budget) -> Guard:
    """A guard that knows nothing but budgets."""
    return Guard([], budgets=budgets, prices=PRICES, secret=b"s" * 32)


def rated(*rates: Rate, **policy: object) -> Guard:
    """A guard that knows nothing but rates."""
    policies = [Policy(name="p", rates=rates, **policy)]
    return Guard(policies, prices=PRICES, secret=b"s" * 32)


def spend(guard: Guard, most: int, now: float = T, **who: object) -> Ticket:
    """Make a call that uses all that it may use."""
    ticket = guard.admit(call(most, **who), now)
    guard.used(ticket, Usage(0, most), now)
    return ticket
