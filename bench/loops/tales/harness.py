"""What all harnesses have in common: how a round becomes an answer, and what is sent after it."""
# ruff: noqa: ARG002

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from bench.loops.form import Done, Frame, Json, Tool, Use
from bench.loops.tales.noise import Noise
from bench.loops.tales.tale import Deed, Round, Tale
from bench.loops.tales.wire import Got, answered, returned, told


@dataclass(frozen=True, slots=True)
class Turn:
    """A round in the form of a harness."""

    done: Done
    answer: Sequence[Json]
    """The answer, as the history has it."""
    back: Sequence[Json]
    """What is sent after the answer."""
    elided: Sequence[Json]
    """The same with its results cleared."""


class Harness:
    """An agent or framework with tools that its API knows of."""

    name: ClassVar[str] = ""
    dialect: ClassVar[str] = "chat"
    model: ClassVar[str] = "gpt-5.2"
    stream: ClassVar[bool] = False
    thinks: ClassVar[bool] = False
    has_item_ids: ClassVar[bool] = False
    tools: ClassVar[Sequence[Tool]] = ()
    prefix: ClassVar[str] = ""
    """What the names of a tale's own tools begin with."""
    call_ids: ClassVar[str] = "call_"
    cleared: ClassVar[str] = "[Old tool result content cleared]"
    nudge: ClassVar[str] = "Continue with the task."
    """What the harness says after an answer without a tool, if nobody else says anything."""

    def system(self, tale: Tale, noise: Noise) -> str:
        return tale.persona or "You are a helpful assistant. Use the tools that you are given."

    def opening(self, tale: Tale, noise: Noise) -> str:
        return tale.task

    def extra(self, session: str) -> Json:
        return {}

    def headers(self, session: str) -> Mapping[str, str]:
        return {}

    def frame(self, tale: Tale, noise: Noise, session: str) -> Frame:
        known = {tool.name for tool in self.tools}
        own = [
            Tool(self.prefix + tool.name, tool.about, tool.parameters)
            for tool in tale.tools
            if tool.name not in known
        ]
        return Frame(
            self.model,
            self.system(tale, noise),
            (*self.tools, *own),
            self.extra(session),
            self.stream,
            self.thinks,
            self.has_item_ids,
        )

    def express(self, deed: Deed, noise: Noise) -> tuple[str, Json, str]:
        """Return the name of the tool, its arguments and its result in the words of the harness."""
        prefix = "" if deed.is_unknown else self.prefix
        return prefix + deed.verb, dict(deed.args), deed.result

    def is_error(self, deed: Deed) -> bool:
        """Return whether the harness marks a result as an error for the API."""
        return deed.failed

    def call_id(self, name: str, noise: Noise) -> str:
        return self.call_ids + noise.word()

    def perform(self, frame: Frame, round_: Round, noise: Noise) -> Turn:
        uses, got = [], []
        for deed in round_.deeds:
            name, args, result = self.express(deed, noise)
            free_text = args.pop("free_text", "")
            call_id = self.call_id(name, noise)
            uses.append(Use(call_id, name, args, result, free_text, json.dumps(args)))
            got.append(Got(result, self.is_error(deed), deed.image))
        done = Done(round_.said, uses, noise.word(28))
        heard = round_.heard or ("" if uses else self.nudge)
        cleared = [Got(self.cleared)] * len(uses)
        return Turn(
            done,
            answered(self.dialect, frame, done),
            returned(self.dialect, uses, got, heard),
            returned(self.dialect, uses, cleared, heard),
        )


class TextHarness(Harness):
    """A harness that reads its commands from the text of answers, and sends results as text."""

    cleared: ClassVar[str] = "Old environment output: (omitted to save space)"

    def write(self, said: str, deed: Deed, noise: Noise) -> str:
        """Return an answer that uses a tool."""
        raise NotImplementedError

    def report(self, deed: Deed, noise: Noise) -> str:
        """Return the message with a result."""
        raise NotImplementedError

    def perform(self, frame: Frame, round_: Round, noise: Noise) -> Turn:
        text, heard, cleared = round_.said, round_.heard or self.nudge, round_.heard or self.nudge
        for deed in round_.deeds[:1]:
            text = self.write(round_.said, deed, noise)
            heard = "\n\n".join(filter(None, (self.report(deed, noise), round_.heard)))
            cleared = self.cleared
        done = Done(text, (), noise.word(28))
        return Turn(
            done,
            told(self.dialect, text, "assistant"),
            told(self.dialect, heard),
            told(self.dialect, cleared),
        )


def as_command(deed: Deed) -> tuple[str, str]:
    """Return a generic deed as a shell command and what that prints."""
    args: Mapping[str, Any] = deed.args
    match deed.verb:
        case "shell":
            return args["command"], deed.result
        case "read":
            return f"cat -n {args['path']}", numbered(deed.result)
        case "find":
            return f"grep -rnE {args['pattern']!r} {args['path']}", deed.result
        case "write":
            return f"cat > {args['path']} <<'EOF'\n{args['content']}\nEOF", ""
        case "edit":
            script = (
                f"python3 - <<'EOF'\nfrom pathlib import Path\np = Path({args['path']!r})\n"
                f"old = {args['old']!r}\nnew = {args['new']!r}\ntext = p.read_text()\n"
                "assert old in text, 'old text not in file'\n"
                "p.write_text(text.replace(old, new, 1))\nEOF"
            )
            failure = (
                'Traceback (most recent call last):\n  File "<stdin>", line 6, in <module>\n'
                "AssertionError: old text not in file"
            )
            return script, failure if deed.failed else ""
        case name:
            return f"{name} {json.dumps(dict(args))}", deed.result


def numbered(content: str, between: str = "\t") -> str:
    """Return text with the numbers of its lines."""
    lines = content.split("\n")
    return "\n".join(f"{n:>6}{between}{line}" for n, line in enumerate(lines, 1))
