"""What agents say when they try again, announce or wait: seldom twice in the same words."""

from __future__ import annotations

from random import Random

_OPENERS = ("Hm.", "Okay.", "Right.", "Hmm, that is odd.", "I see.", "Strange.", "", "", "")
_VERDICTS = (
    "That did not work.",
    "Still the same.",
    "No luck so far.",
    "It is not what I expected.",
    "The outcome has not changed.",
    "This is not it yet.",
    "",
)
_PLANS = (
    "Let me try again.",
    "I'll give it another try.",
    "One more attempt, a little differently.",
    "I will look at it from another side.",
    "Trying once more.",
    "Perhaps it works this time.",
    "Let me make sure by repeating it.",
    "I should double-check that.",
)
_WAITS = (
    "Let me check again.",
    "I'll look once more.",
    "Checking the state.",
    "It should not take much longer.",
    "I'll give it a bit more time.",
    "Let me see whether it is done.",
    "Waiting, then looking again.",
)
_PROMISES = (
    "I will now {deed}.",
    "Next, I'll {deed}.",
    "Great, let me {deed}.",
    "I am going to {deed} now.",
    "Alright: I shall {deed} right away.",
    "As a next step I will {deed}.",
    "Let me go ahead and {deed}.",
    "Now it is time to {deed}.",
)
_ENDINGS = (
    "",
    " Then I'll report back.",
    " One moment, please.",
    " This will complete the task.",
    " I have all that I need.",
    " Afterwards I check the outcome.",
)


def retry(rng: Random) -> str:
    """Return the words of an agent that tries again."""
    if rng.random() < 0.15:
        return ""
    parts = (rng.choice(_OPENERS), rng.choice(_VERDICTS), rng.choice(_PLANS))
    return " ".join(filter(None, parts))


def wait(rng: Random) -> str:
    """Return the words of an agent that waits for something."""
    return " ".join(filter(None, (rng.choice(_OPENERS), rng.choice(_WAITS))))


def promise(rng: Random, deed: str) -> str:
    """Return an announcement of a deed."""
    return rng.choice(_PROMISES).format(deed=deed) + rng.choice(_ENDINGS)
