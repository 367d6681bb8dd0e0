"""What agents say beside a call: in other words each time, or nothing, or always the same."""

from __future__ import annotations

from random import Random

_OPENERS = (
    "",
    "",
    "",
    "Okay. ",
    "Hmm. ",
    "Right. ",
    "Let's see. ",
    "Alright. ",
    "I see. ",
    "Now, ",
    "Next: ",
    "One moment. ",
)
_BODIES = {
    "run": (
        "I'll run {what}.",
        "let me run {what} and look at the output.",
        "running {what} to see where we stand.",
        "time to execute {what}.",
        "I want to see what comes of {what}.",
        "let me try {what}.",
        "I'm going to start {what}.",
        "{what} should tell me more.",
        "the quickest way to find out is {what}.",
        "I will use {what} for that.",
    ),
    "read": (
        "I'll open {what}.",
        "let me look at {what}.",
        "I need to see {what} first.",
        "checking {what}.",
        "this should be in {what}, so I'll read it.",
        "let me read through {what}.",
        "before I go on I want to understand {what}.",
        "I'd like a look at {what}.",
        "opening {what} for the details.",
    ),
    "edit": (
        "I'll change {what}.",
        "let me update {what} accordingly.",
        "applying the change to {what}.",
        "{what} needs an adjustment.",
        "I can fix that in {what}.",
        "editing {what} now.",
        "the fix belongs in {what}.",
        "I'm going to modify {what}.",
    ),
    "search": (
        "I'll search for {what}.",
        "let me look for {what}.",
        "searching for {what}.",
        "maybe there is something about {what}.",
        "a query about {what} may help.",
        "let me find out more about {what}.",
        "I should look up {what}.",
        "I'd like more on {what}.",
    ),
    "retry": (
        "that didn't work, let me try {what} again.",
        "it failed; trying {what} once more.",
        "strange. I'll retry {what}.",
        "I'll give {what} another go.",
        "this should have worked. Once more {what}.",
        "the error may be temporary, so again {what}.",
        "let me attempt {what} in a slightly different way.",
        "I'll see whether {what} works now.",
        "perhaps {what} succeeds this time.",
        "let me do {what} properly now.",
    ),
    "check": (
        "let me verify {what}.",
        "I'll check {what}.",
        "checking on {what}.",
        "I want to be sure about {what}.",
        "what is the state of {what}?",
        "a look at {what} will tell.",
        "let me confirm {what}.",
        "I'd better make sure of {what}.",
        "now {what}.",
    ),
    "poll": (
        "let me see whether {what} is done.",
        "checking again on {what}.",
        "I'll look at {what} once more.",
        "has {what} finished by now?",
        "waiting for {what}; let me look.",
        "still waiting on {what}, checking.",
        "let me get the current state of {what}.",
        "how is {what} coming along?",
    ),
    "do": (
        "I'll get to {what}.",
        "let me take care of {what}.",
        "working on {what}.",
        "next comes {what}.",
        "moving on to {what}.",
        "now for {what}.",
        "I can handle {what} now.",
        "the next thing is {what}.",
    ),
}
_TAILS = (
    "",
    "",
    "",
    " This should help.",
    " Then we'll know.",
    " I'd rather be certain.",
    " After that I can continue.",
    " Should be quick.",
    " That's the next thing on my list.",
)


_FIRST = {"retry": "do", "poll": "check"}
"""Nothing is tried again, or still waited for, the first time."""


class Voice:
    """The voice of one agent. `quiet` is how often it says nothing; a parrot repeats itself."""

    def __init__(self, rng: Random, quiet: float | None = None, parrot: bool = False) -> None:
        self._rng = rng
        self._quiet = rng.choice((0.0, 0.0, 0.15, 0.5)) if quiet is None else quiet
        self._parrot = parrot
        self._known: dict[tuple[str, str], str] = {}
        self._said: set[str] = set()
        self._named: set[str] = set()

    def __call__(self, purpose: str, what: str) -> str:
        """Say what comes next, and why."""
        purpose = _FIRST.get(purpose, purpose) if what not in self._named else purpose
        self._named.add(what)
        if self._parrot:
            return self._known.setdefault((purpose, what), self._new(purpose, what))
        return "" if self._rng.random() < self._quiet else self._new(purpose, what)

    def _new(self, purpose: str, what: str) -> str:
        for _ in range(20):
            body = self._rng.choice(_BODIES[purpose]).format(what=what)
            opener = self._rng.choice(_OPENERS)
            if body.split()[0] in opener.lower():
                opener = ""
            is_name = body.startswith(what) and not what.startswith("the ")
            if not opener.endswith((": ", ", ")) and not is_name:
                body = body[0].upper() + body[1:]
            text = opener + body + self._rng.choice(_TAILS)
            if text not in self._said:
                break
        self._said.add(text)
        return text
