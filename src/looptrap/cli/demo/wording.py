"""The words of the demo; every figure in them is counted, none is written down."""

from __future__ import annotations

from textwrap import fill

from looptrap.cli.demo.act import Act
from looptrap.cli.demo.agent import ARGUMENTS, FAILURE, KEPT, TOOL, Step
from looptrap.cli.demo.price import PRICE

INTRODUCTION = f"""\
An agent is stuck: its tool keeps failing, and its context window holds only
the last {KEPT} messages, so it cannot see how often it has tried this already."""

WIDTH = 72
"""Of longer texts; leaves room for a frame in a terminal of 80 columns."""

_ARGUMENTS = ", ".join(f"{name}={value}" for name, value in ARGUMENTS.items())
_USED = f"{TOOL}({_ARGUMENTS}) failed: {FAILURE}"


def title(act: Act) -> str:
    """Return what an act is called."""
    return "With Looptrap" if act.is_guarded else "Without Looptrap"


def row(act: Act, step: Step) -> str:
    """Return one call and what has been spent by then."""
    happened = f"HTTP {step.status} {step.code}" if step.is_refused else _USED
    verdict = f"{step.verdict:<7}" if act.is_guarded else ""
    return f"call {step.number:>4}  {verdict}{happened:<51}${act.cost:.2f}"


def ending(act: Act) -> str:
    """Return how an act came to its end."""
    if act.refusal is not None:
        return fill(act.refusal.message, WIDTH)
    return f"Nothing has stopped it. The demo does, after {act.most} calls."


def conclusion(without: Act, guarded: Act) -> str:
    """Return what was caught, when, and what that saves."""
    return f"{_caught(without, guarded)}\n\n{_reckoned(without)}"


def _caught(without: Act, guarded: Act) -> str:
    refusal = guarded.refusal
    if refusal is None:
        return f"{guarded.most} calls are not a loop yet: try --calls 60."
    saved = without.cost - guarded.cost
    return (
        f"Caught on call {refusal.number}: {guarded.answered} calls reached the provider,"
        f" not {without.answered}.\nSpent ${guarded.cost:.2f} instead of ${without.cost:.2f}:"
        f" ${saved:.2f} saved ({saved / without.cost:.0%})."
    )


def _reckoned(act: Act) -> str:
    tokens = sum(step.input_tokens + step.output_tokens for step in act.steps)
    return (
        f"{fill(f'{PRICE}; {tokens // act.answered:,} tokens a call, none cached.', WIDTH)}\n"
        "Tokens are what the fake provider reported. Nothing has left this machine."
    )
