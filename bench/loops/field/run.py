"""A run: what templates write with; their scenarios in several forms."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import TypeVar

from bench.loops.field.cast import FORMS, Act, Form, call_of, result_of
from bench.loops.field.wire import (
    Frame,
    Item,
    Json,
    Said,
    Use,
    User,
    answer_of,
    body_of,
    path_of,
    spec,
)
from bench.loops.scenario import START, Scenario, Step

T = TypeVar("T")

LOOP = "loop"
CLEARED = "[Old tool result content cleared]"
RECENT = 3
"""Rounds whose results an elided history still has."""
WINDOW = 6
"""Rounds that a trimmed history has."""
EVERY = 9
"""Rounds between two compactions."""
REMINDED = 7
"""Rounds between two reminders of a harness."""


class Run:
    """One run: its clock, its chance, and the requests of its agents."""

    def __init__(self, form: str, chance: Random, shows: str = "whole") -> None:
        self.form = form
        self.chance = chance
        self.shows = shows
        self.clock = 0.0
        self.session = self.hex(12)
        self.steps: list[Step] = []
        self.begun: int | None = None

    def chat(self, system: str = "") -> Chat:
        """Return a conversation of this run's session."""
        return Chat(self, FORMS[self.form], system)

    def once(self, prompt: str, answer: str) -> None:
        """Send a prompt without history."""
        chat = self.chat()
        chat.user(prompt)
        chat.say(answer)

    def begin(self) -> None:
        """Mark the next request as the first that brings nothing new; the first mark counts."""
        if self.begun is None:
            self.begun = len(self.steps)

    def wait(self, least: float, most: float = 0.0) -> None:
        self.clock += self.chance.uniform(least, most or least)

    # chance

    def pick(self, *choices: T) -> T:
        return self.chance.choice(choices)

    def some(self, choices: Sequence[T], number: int) -> list[T]:
        return self.chance.sample(choices, number)

    def num(self, least: int, most: int) -> int:
        return self.chance.randint(least, most)

    def dec(self, least: float, most: float, digits: int = 2) -> float:
        return round(self.chance.uniform(least, most), digits)

    def hex(self, digits: int) -> str:
        return f"{self.chance.randrange(16**digits):0{digits}x}"

    def mix(self, *parts: Sequence[str]) -> str:
        """Return a sentence of one choice for each part; a part is a list, or words with `|`."""
        words = (part.split("|") if isinstance(part, str) else part for part in parts)
        return " ".join(self.chance.choice(list(choices)) for choices in words)

    def times(self, least: int, most: int) -> range:
        return range(self.num(least, most))

    def stamp(self, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str:
        """Return what time it is, to the second."""
        return datetime.fromtimestamp(START + self.clock, UTC).strftime(form)

    def screen(self, what: str, noise: bool = False) -> str:
        """Return a picture, the same for the same things on the screen."""
        chance = Random(f"{self.session}{what}")
        pixels = bytearray(chance.randbytes(900))
        if noise:
            pixels[-40:] = self.chance.randbytes(40)
        return base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(pixels)).decode()


class Chat:
    """A conversation with one model."""

    def __init__(self, run: Run, form: Form, system: str) -> None:
        self.run, self.form, self.items = run, form, list[Item]()
        session = run.session
        headers, extra = form.session(session, Random(session))
        self.headers = {**headers, **({"user-agent": form.agent} if form.agent else {})}
        text = f"{form.system}\n\n{system}".strip() if system else form.system
        model = Random(session).choice(form.models)
        self.frame = Frame(form.api, model, text, form.stream, [], extra, form.thinks)
        self.schemas: dict[str, Json] = {}
        self.previous = ""
        self.summary: Callable[[], str] | None = None
        """Says what a compaction keeps."""
        self.rounds = 0
        for verb, (name, names, always) in form.verbs.items():
            sample: Json = dict.fromkeys(names.values(), "") | always
            if verb == "todo":
                sample[form.plan] = [{}]
            self._offer(name, "" if name == "apply_patch" else sample)

    def user(self, text: str, name: str = "") -> None:
        if not self.items and self.form.opening:
            text = f"{self.form.opening.format(day=self.run.stamp('%Y-%m-%d'))}\n\n{text}"
        self.items.append(User(text, name))

    def act(self, say: str, *acts: Act) -> None:
        """Request a round in which the model says this and does these."""
        if self.run.shows == "compacted" and self.rounds and self.rounds % EVERY == 0:
            self._compact()
        self.rounds += 1
        calls = [call_of(self.form, act) for act in acts]
        results = [result_of(self.form, act, self.run.chance) for act in acts]
        if self.form.says:
            self._act_in_text(say, acts, calls, results)
            return
        for name, args in calls:
            self._offer(name, args)
        made = self.form.api == "anthropic"
        uses = tuple(
            Use(
                f"{'toolu_01' if made else 'call_'}{self.run.hex(20)}",
                name,
                args,
                result,
                made and bool(act.code),
                act.image,
            )
            for act, (name, args), result in zip(acts, calls, results, strict=True)
        )
        self._send(Said(self.run.hex(24), say, uses))
        self.run.clock += max(act.takes for act in acts)
        if self.form.reminder and self.rounds % REMINDED == 0:
            self.user(self.form.reminder)

    def say(self, text: str) -> None:
        """Request a round in which the model only says this."""
        self._send(Said(self.run.hex(24), text))

    def _act_in_text(
        self,
        say: str,
        acts: Sequence[Act],
        calls: Sequence[tuple[str, Json | str]],
        results: Sequence[str],
    ) -> None:
        """Write the first call as text: these forms make one call a round."""
        assert self.form.says
        assert self.form.hears
        name, args = calls[0]
        assert not isinstance(args, str)
        said = Said(self.run.hex(24), self.form.says(say or f"I use {name}.", name, args))
        heard = self.form.hears(acts[0], name, results[0], self.rounds)
        self._send(said)
        if self.form.joins:
            self.items[-1] = replace(said, text=said.text + heard)
        else:
            self.user(heard)
        self.run.clock += acts[0].takes

    def _send(self, said: Said) -> None:
        run = self.run
        takes = round(run.chance.uniform(1.5, 9.0), 2)
        shown = self._shown()
        step = Step(
            at=round(run.clock, 2),
            takes=takes,
            body=body_of(self.frame, shown, self.previous),
            answer=answer_of(self.frame, said),
            path=path_of(self.frame),
            headers=self.headers,
        )
        run.steps.append(step)
        run.clock += takes + run.chance.uniform(0.1, 1.2)
        self.items.append(said)
        if self.form.name == "responses-kept":
            self.previous = said.id

    def _shown(self) -> list[Item]:
        """Return what the next request has of the history."""
        saids = [place for place, item in enumerate(self.items) if isinstance(item, Said)]
        if self.previous and saids:
            return self.items[saids[-1] :]
        match self.run.shows:
            case "trimmed" if len(saids) > WINDOW:
                return [self.items[0], *self.items[saids[-WINDOW] :]]
            case "elided" if len(saids) > RECENT:
                place = saids[-RECENT]
                return [_cleared(item) for item in self.items[:place]] + self.items[place:]
        return list(self.items)

    def _compact(self) -> None:
        """Have the model sum up, and go on from that."""
        said = self.summary() if self.summary else "The work goes on as asked."
        self.user("Your task is to create a detailed summary of the conversation so far.")
        self.say(f"<summary>\n{said}\n</summary>")
        self.items = [
            self.items[0],
            User(
                "This session is being continued from a previous conversation that ran out of "
                f"context. The summary:\n{said}\nContinue with the task without asking the user."
            ),
        ]

    def _offer(self, name: str, args: Json | str) -> None:
        """Declare a tool, or further arguments of one that is declared."""
        if self.form.says:
            return
        if isinstance(args, str):
            if name not in self.schemas:
                about = "Edits files: the input is a patch."
                self.frame.tools.append({"type": "custom", "name": name, "description": about})
                self.schemas[name] = {}
            return
        if name not in self.schemas:
            if name == "computer":
                size = {"display_width_px": 1280, "display_height_px": 800}
                self.schemas[name] = {"properties": {}}
                self.frame.tools.append({"type": "computer_20251124", "name": name, **size})
                return
            self.schemas[name] = {"type": "object", "properties": {}}
            self.frame.tools.append(spec(self.form.api, name, self.schemas[name]))
        known = self.schemas[name]["properties"]
        for key, value in args.items():
            known.setdefault(key, {"type": _TYPES.get(type(value), "string")})


_TYPES = {bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


def _cleared(item: Item) -> Item:
    if isinstance(item, User):
        return item
    return replace(item, uses=tuple(replace(use, result=CLEARED, image="") for use in item.uses))


# templates

Write = Callable[[Run, str], None]


@dataclass(frozen=True, slots=True)
class Template:
    """A loop and its honest twins: one function that writes them all."""

    name: str
    kind: str
    forms: tuple[str, ...]
    twins: tuple[str, ...]
    write: Write
    shows: str
    difficulty: str


class Half:
    """The templates of a half."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.templates: list[Template] = []

    def template(
        self, kind: str, forms: str, twins: str, shows: str = "whole", difficulty: str = "medium"
    ) -> Callable[[Write], Write]:
        """Register a function that writes a run: a loop, or one of its twins."""

        def register(write: Write) -> Write:
            name = write.__name__.replace("_", "-")
            self.templates.append(
                Template(
                    name, kind, tuple(forms.split()), tuple(twins.split()), write, shows, difficulty
                )
            )
            return write

        return register

    def scenarios(self, seed: int) -> list[Scenario]:
        return list(self._written(seed))

    def _written(self, seed: int) -> Iterator[Scenario]:
        for one in self.templates:
            for place, form in enumerate(one.forms):
                for way in (LOOP, *one.twins):
                    chance = Random(f"{seed} {self.name} {one.name} {place}")
                    run = Run(form, chance, one.shows)
                    one.write(run, way)
                    yield _scenario(f"field-{self.name}/{one.name}/{way}/{place}", one, way, run)


def _scenario(name: str, one: Template, way: str, run: Run) -> Scenario:
    steps = sorted(run.steps, key=lambda step: step.at)
    begins = 0
    if way == LOOP:
        assert run.begun is not None
        begins = next(place for place, step in enumerate(steps) if step is run.steps[run.begun])
    shows = "kept" if run.form == "responses-kept" else one.shows
    return Scenario(name, one.kind, way == LOOP, steps, run.form, begins, shows, one.difficulty)


def cycle(choices: Iterable[T]) -> Iterator[T]:
    """Go round and round."""
    known = list(choices)
    return (known[number % len(known)] for number in count())
