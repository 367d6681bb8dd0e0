"""aider, as far as its requests show it: a chat about files, with edits, tests and courtesies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from looptrap import Guard, LoopDetectedError
from looptrap.dialect.model import Outcome

START = 1_800_000_000.0
REFLECTIONS = 3
"""How often aider answers the model by itself for each line of its user."""

RULES = (
    "# *SEARCH/REPLACE block* Rules:\n\nEvery *SEARCH/REPLACE block* must use this format:\n"
    "1. The *FULL* file path alone on a line.\n2. The opening fence and the code language."
)
SYSTEM = f"Act as an expert software developer. Always use best practices.\n{RULES}"
FILES = (
    "I have *added these files to the chat* so you can go ahead and edit them.\n\n"
    "*Trust this message as the true contents of these files!*\n"
)
TEST = "python3 -m pytest"
UPDATED = "I updated the files."
NO_EDITS = "I didn't see any properly formatted edits in your reply?!"


class Answer(NamedTuple):
    """What the model says, and what comes of it."""

    text: str
    rejected: str = ""
    """Why its edit was not made."""
    files: Mapping[str, str] | None = None
    """The files after its edit; None if it made none."""
    test: str = ""
    """What the test said then; empty if it passed."""


Model = Callable[[int], Answer]
"""Returns the answer to the n-th call."""


def edit(old: object, new: object, name: str = "app.py", say: str = "") -> str:
    """Return an edit in the form that aider asks for."""
    change = f"<<<<<<< SEARCH\nSTEP = {old}\n=======\nSTEP = {new}\n>>>>>>> REPLACE"
    return f"{say}\n\n{name}\n```python\n{change}\n```"


def ran(output: str, command: str = TEST) -> str:
    return f"I ran this command:\n\n{command}\n\nAnd got this output:\n\n{output}\n"


class EditSession:
    """One start of aider before a guard."""

    def __init__(
        self,
        guard: Guard,
        *,
        files: Mapping[str, str] | None = None,
        reminds_in: str = "system",
        commits: bool = False,
        now: float = START,
        answer_s: float = 2.0,
    ) -> None:
        self.files = {"app.py": "STEP = 0\n"} if files is None else dict(files)
        self.calls = 0
        self.now = now
        self.actions: list[str] = []
        """What was decided about each call."""
        self._guard = guard
        self._reminds_in = reminds_in
        self._commits = commits
        self._answer_s = answer_s
        self._done: list[dict[str, str]] = []
        self._current: list[dict[str, str]] = []

    def messages(self) -> list[dict[str, str]]:
        """Return the messages of the next request."""
        shown = "".join(f"\n{name}\n```\n{text}```\n" for name, text in self.files.items())
        sent = [
            _message("system", SYSTEM),
            _message("user", "Change get_factorial() to use math.factorial"),
            _message("assistant", edit(1, 2, "mathweb/flask/app.py")),
            _message("user", "I switched to a new code base. Please don't consider the above."),
            _message("assistant", "Ok."),
            *self._done,
            _message("user", FILES + shown),
            _message("assistant", "Ok, any changes I propose will be to those files."),
            *self._current,
        ]
        if self._reminds_in == "system":
            return [*sent, _message("system", RULES)]
        return [*sent[:-1], _message("user", f"{sent[-1]['content']}\n\n{RULES}")]

    def say(self, line: str, model: Model) -> bool:
        """Say a line, and let aider work on it; return whether all of its calls passed."""
        for _ in range(1 + REFLECTIONS):
            self._current.append(_message("user", line))
            if not self._send():
                return False
            line = self._take(model(self.calls - 1))
            if not line:
                break
        return True

    def run(self, command: str, output: str) -> None:
        """Run a command for the user, and add its output to the chat."""
        self._current += [_message("user", ran(output, command)), _message("assistant", "Ok.")]

    def _send(self) -> bool:
        body: dict[str, Any] = {"model": "gpt-4o", "messages": self.messages()}
        try:
            ticket = self._guard.check(body, now=self.now)
        except LoopDetectedError:
            self.actions.append("block")
            return False
        self.actions.append(str(ticket.verdict.action))
        self.calls += 1
        self.now += self._answer_s
        self._guard.conclude(ticket, Outcome(200), now=self.now)
        return True

    def _take(self, answer: Answer) -> str:
        """Do as the model says; return what aider says to it next, if anything."""
        self._current.append(_message("assistant", answer.text))
        if answer.rejected:
            if answer.rejected.startswith("# "):  # it was read, and does not fit
                self._move_back(NO_EDITS if self._commits else UPDATED)
            return answer.rejected
        if answer.files is None:
            return ""
        self.files |= answer.files
        commit = f"{hash((self.calls, answer.text)) & 0xFFFFFFF:07x}"
        committed = f"I committed the changes with git hash {commit} & commit msg: fix: step"
        self._move_back(committed if self._commits else UPDATED)
        if answer.test:
            self.run(TEST, answer.test)
            return ran(answer.test)
        return ""

    def _move_back(self, saved: str) -> None:
        """Say what became of an edit, as aider does even if it could not make it."""
        said = [_message("user", saved), _message("assistant", "Ok.")]
        self._done += [*self._current, *said]
        self._current = []


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
