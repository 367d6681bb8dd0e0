"""One turn of an agent on one budget: retries where a retry can help, and gives up on the rest."""

from looptrap.retry import GiveUp, Turn, mutating, retrying, testing
from looptrap.retry.idempotency import MemoryLedger


class StatusError(Exception):
    status_code = 401  # as SDKs raise it


outages = [ConnectionResetError("reset by peer"), None, StatusError("wrong key")]


def ask_model(prompt: str) -> str:
    """A fake SDK that sometimes cannot connect."""
    if outage := outages.pop(0):
        raise outage
    return f"I shall book {prompt}."


@retrying
@mutating(ledger=MemoryLedger())
def book(flight: str) -> str:
    """A fake tool that must not do its work twice."""
    print(f"tool: booked {flight}")
    return "seat 12A"


with testing() as rehearsal:  # without this line it would wait in real time
    try:
        with Turn(steps=8, deadline=90, tool_calls=15) as turn:
            print(f"step 1: {turn.call(ask_model, 'LH 123')}")
            for _ in range(2):  # the same decision arrives twice
                with turn.decision("call_7"):
                    print(f"tool: {turn.tool(book, 'LH 123')}")
            print(f"left: {turn.left.steps} steps, {turn.left.tool_calls} tool calls")
            turn.call(ask_model, "a hotel")
    except GiveUp as ended:
        print(f"step {ended.marker.step}: gave up, {ended.marker.reason}")
    print(f"waited {rehearsal.waits} seconds")
