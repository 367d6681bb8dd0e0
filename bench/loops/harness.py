"""Agents and frameworks: how each names its tools, words results, and sends its requests."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.loops import dress, form, plain
from bench.loops.dress import Dressed
from bench.loops.form import Done, Entry, Frame, Json, Say, Tool, Use, share_messages
from bench.loops.reply import answer
from bench.loops.scenario import Step
from bench.loops.world import CHUNK, CLOCK, PID, REQUEST, TOOK, Act, Round, World

View = Callable[[Sequence[Entry]], Sequence[Entry]]
"""What of a history a harness sends."""

BODIES = {**form.BODIES, **plain.BODIES}
PATHS = {**form.PATHS, **plain.PATHS}

_COMMON = ("read", "run", "edit", "plan")
_ALNUM = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Harness:
    """One agent or framework."""

    name: str
    form: str
    model: str
    system: str
    dress: Callable[[Act, str], Dressed]
    """Words an act, given the root of the project."""
    tools: Sequence[Tool] = ()
    stream: bool = False
    ids: str = "call"
    name_session: Callable[[Run], tuple[Json, Json]] = lambda _: ({}, {})
    """Headers, and fields of the body, that name the session."""
    preface: Callable[[Run], list[Entry]] = lambda _: []
    """What comes before the task."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    prefix: str = ""
    """What stands before the names of tools of other servers."""
    thinks: bool = False
    """Whether answers hold a sealed thought, which goes back with the history."""
    has_item_ids: bool = False
    """Whether items of the Responses API go back with their ids."""
    note: Callable[[Run], str] = lambda _: ""
    """What it adds to the last result of a round, of its own."""


@dataclass(slots=True)
class Run:
    """One run of an agent, with its history, its clock and the requests that it sent."""

    harness: Harness
    world: World
    is_noisy: bool = False
    """Whether durations and times in results differ from call to call."""
    is_named: bool = True
    """Whether requests name their session."""
    other_tools: Sequence[Tool] = ()
    clock: float = 0.0
    pace: tuple[float, float] = (2.0, 20.0)
    session: str = ""
    history: list[Entry] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    system: str = ""
    extra: Json = field(default_factory=dict)
    headers: Json = field(default_factory=dict)
    account: str = ""
    preface: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.account = self.world.hex(64)
        self.system = self.system or self.harness.system.format(
            root=self.world.root, rules=self.world.prose(4)
        )
        self.preface = self.harness.preface(self)
        self.open_session()

    @property
    def rng(self) -> random.Random:
        return self.world.rng

    def open_session(self) -> None:
        """Begin a new session; its requests name it, unless they name none."""
        self.session = self.world.uuid()
        self.extra, self.headers = dict(self.harness.extra), {}
        if self.is_named:
            headers, fields = self.harness.name_session(self)
            self.headers |= headers
            self.extra |= fields

    def begin(self, task: str) -> None:
        """Start a history with what comes before the task, and the task."""
        self.history = [*self.preface, Say("user", task)]

    def follow(self, rounds: Iterable[Round], view: View = list) -> None:
        """Ask for each round, and take it into the history; who only talks is asked for more."""
        for one in rounds:
            match self.history[-1:]:
                case [Done(uses=[])]:
                    self.history.append(Say("user", self.world.sentence()))
            done = self.perform(one)
            self.send(view(self.history), done)
            self.history.append(done)

    def perform(self, one: Round) -> Done:
        """Return a round in the form of the harness, with new ids."""
        uses = []
        for act in one.acts:
            worn = self.harness.dress(act, self.world.root)
            name = worn.name if act.kind in _COMMON else self.harness.prefix + worn.name
            result = worn.result
            for token, value in self._tokens():
                if token in result:
                    result = result.replace(token, value())
            arguments = json.dumps(worn.args)
            told = (worn.args, result, worn.free_text, arguments, act.image)
            uses.append(Use(self.new_id(), name, *told))
        note = self.harness.note(self) if uses else ""
        if note:
            uses[-1] = replace(uses[-1], result=f"{uses[-1].result}\n\n{note}")
        return Done(one.text, uses, self.world.hex(48))

    def send(
        self,
        entries: Iterable[Entry],
        done: Done,
        *,
        frame: Frame | None = None,
    ) -> None:
        """Add a request, and its answer, to the steps."""
        frame = frame or self.frame()
        kind = self.harness.form
        body = BODIES[kind](frame, entries)
        self.add(body, answer(kind, frame, done))

    def add(self, body: Json, answered: bytes) -> None:
        takes = round(self.rng.uniform(*self.pace), 2)
        if self.steps:
            share_messages(body, self.steps[-1].body)
        path = PATHS[self.harness.form]
        self.steps.append(Step(round(self.clock, 2), takes, body, answered, path, self.headers))
        self.clock += takes + self.rng.uniform(0.1, 5.0)

    def frame(self) -> Frame:
        harness = self.harness
        others = [replace(tool, name=harness.prefix + tool.name) for tool in self.other_tools]
        return Frame(
            harness.model,
            self.system,
            [*harness.tools, *others],
            self.extra,
            stream=harness.stream,
            thinks=harness.thinks,
            has_item_ids=harness.has_item_ids,
        )

    def without_tools(self, system: str) -> Frame:
        """Return the frame of a request that asks for a summary."""
        return replace(self.frame(), tools=(), system=system)

    def new_id(self) -> str:
        kind = self.harness.ids
        if kind == "call":
            return "call_" + "".join(self.rng.choices(_ALNUM, k=24))
        if kind == "toolu":
            return "toolu_01" + "".join(self.rng.choices(_ALNUM, k=22))
        return {"none": "", "call_0": "call_0"}[kind]

    def _tokens(self) -> Iterable[tuple[str, Callable[[], str]]]:
        yield TOOK, self.took
        yield CLOCK, self.time
        yield PID, self.process
        yield REQUEST, self.world.uuid
        yield CHUNK, lambda: self.world.hex(6)

    def took(self) -> str:
        return f"{self.rng.uniform(0.2, 9.0):.2f}" if self.is_noisy else "0.84"

    def time(self) -> str:
        seconds = int(self.clock) if self.is_noisy else 0
        return f"2027-01-15T{8 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"

    def process(self) -> str:
        return str(self.rng.randint(2000, 60_000) if self.is_noisy else 4711)


def tools_for(rounds: Iterable[Round]) -> list[Tool]:
    """Return the tools that these rounds use besides those that every harness has."""
    found = {act.kind: act for one in rounds for act in one.acts if act.kind not in _COMMON}
    return [
        Tool(name, f"Calls {name.replace('_', ' ')} of the service.", tuple(act.args))
        for name, act in sorted(found.items())
    ]


# how each names its session and begins


def _claude_session(run: Run) -> tuple[Json, Json]:
    user = f"user_{run.account}_account__session_{run.session}"
    return {"x-claude-code-session-id": run.session}, {"metadata": {"user_id": user}}


def _codex_session(run: Run) -> tuple[Json, Json]:
    return {"session_id": run.session, "originator": "codex_cli_rs"}, {
        "prompt_cache_key": run.session
    }


def _opencode_session(run: Run) -> tuple[Json, Json]:
    return {}, {"prompt_cache_key": f"ses_{run.session.replace('-', '')[:26]}"}


def _litellm_session(run: Run) -> tuple[Json, Json]:
    return {}, {"metadata": {"session_id": run.session, "tags": ["app:openhands"]}}


def _claude_preface(run: Run) -> list[Entry]:
    rules = run.world.prose(5)
    text = (
        f"<system-reminder>\nContents of {run.world.root}/CLAUDE.md:\n{rules}\n</system-reminder>"
    )
    return [Say("user", text)]


def _codex_preface(run: Run) -> list[Entry]:
    root = run.world.root
    rules = f"<INSTRUCTIONS>\n{run.world.prose(5)}\n</INSTRUCTIONS>"
    place = f"  <cwd>{root}</cwd>\n  <shell>bash</shell>"
    return [
        Say("user", f"# AGENTS.md instructions for {root}\n\n{rules}"),
        Say("user", f"<environment_context>\n{place}\n</environment_context>"),
    ]


def _gemini_preface(run: Run) -> list[Entry]:
    place = (
        "This is the Gemini CLI. We are setting up the context for our chat.\n"
        f"My operating system is: linux\nI'm currently working in the directory: {run.world.root}"
    )
    return [Say("user", place), Say("assistant", "Got it. Thanks for the context!")]


def _tools(*described: tuple[str, str, tuple[str, ...]]) -> tuple[Tool, ...]:
    return tuple(Tool(name, about, fields) for name, about, fields in described)


_EDITOR = ("str_replace_editor", "View, create and edit files.", ("command", "path"))
PLAIN = _tools(
    ("read_file", "Read a file.", ("path",)),
    ("run_command", "Run a shell command.", ("command",)),
    ("edit_file", "Replace text in a file.", ("path", "old", "new")),
    ("write_todos", "Write the list of todos.", ("todos",)),
)
_CODER = "You are a coding agent that works in {root}. Use the tools; do not guess.\n\n{rules}"

CLAUDE_CODE = Harness(
    "claude-code",
    "anthropic",
    "claude-sonnet-4-5-20250929",
    "You are Claude Code, an agent for software tasks.\n\nWorking directory: {root}\n\n{rules}",
    dress.dress_for_claude,
    _tools(
        ("Read", "Reads a file from the local filesystem.", ("file_path",)),
        ("Bash", "Executes a bash command.", ("command", "description")),
        ("Edit", "Replaces strings in files.", ("file_path", "old_string", "new_string")),
        ("TodoWrite", "Keeps the list of todos.", ("todos",)),
    ),
    stream=True,
    ids="toolu",
    name_session=_claude_session,
    preface=_claude_preface,
    prefix="mcp__desk__",
    thinks=True,
)
CODEX = Harness(
    "codex",
    "responses",
    "gpt-5-codex",
    "You are Codex, a coding agent running in a terminal at {root}.\n\n{rules}",
    dress.dress_for_codex,
    (
        *_tools(
            ("shell", "Runs a shell command and returns its output.", ("command", "workdir")),
            ("update_plan", "Updates the task plan.", ("plan",)),
        ),
        Tool("apply_patch", "Edits files with a patch.", is_custom=True),
    ),
    stream=True,
    name_session=_codex_session,
    preface=_codex_preface,
    extra={"store": False, "include": ["reasoning.encrypted_content"]},
    thinks=True,
)
GEMINI_CLI = Harness(
    "gemini-cli",
    "gemini",
    "gemini-2.5-pro",
    "You are an interactive CLI agent for software engineering in {root}.\n\n{rules}",
    dress.dress_for_gemini,
    _tools(
        ("read_file", "Reads a file.", ("absolute_path",)),
        ("run_shell_command", "Runs a shell command.", ("command", "description")),
        ("replace", "Replaces text within a file.", ("file_path", "old_string", "new_string")),
        ("write_todos", "Lists the subtasks.", ("todos",)),
    ),
    ids="none",
    preface=_gemini_preface,
    thinks=True,
)
OPENCODE = Harness(
    "opencode",
    "chat",
    "gpt-4.1",
    "You are opencode, an agent in the terminal. Working directory: {root}\n\n{rules}",
    dress.dress_for_opencode,
    _tools(
        ("read", "Reads a file.", ("filePath",)),
        ("bash", "Runs a command.", ("command", "description")),
        ("edit", "Edits a file.", ("filePath", "oldString", "newString")),
        ("todowrite", "Writes the list of todos.", ("todos",)),
    ),
    stream=True,
    name_session=_opencode_session,
    prefix="desk_",
)
OPENCODE_CLAUDE = replace(
    OPENCODE,
    form="anthropic",
    model="claude-sonnet-4-5-20250929",
    ids="toolu",
    name_session=lambda _: ({}, {}),
)
OPENHANDS = Harness(
    "openhands",
    "chat",
    "gpt-4.1",
    "You are OpenHands agent; you work on a computer to solve tasks.\n\n{rules}",
    dress.dress_for_openhands,
    _tools(
        ("execute_bash", "Executes a command.", ("command", "is_input")),
        _EDITOR,
        ("task_tracker", "Plans tasks.", ("command", "todos")),
    ),
    name_session=_litellm_session,
)
SWE_AGENT = Harness(
    "swe-agent",
    "chat",
    "gpt-4o-2024-11-20",
    "You are a helpful assistant that can interact with a computer. Repository: {root}\n{rules}",
    dress.dress_for_swe_agent,
    _tools(("bash", "Runs a command.", ("command",)), _EDITOR),
)
MINI_SWE = Harness(
    "mini-swe-agent",
    "text",
    "gpt-4o-2024-11-20",
    "You work on a computer in {root}. Answer with a THOUGHT and one bash block.\n{rules}",
    dress.dress_as_shell,
    ids="none",
)
LANGCHAIN = Harness("langchain", "chat", "gpt-4.1-mini", _CODER, dress.dress_plainly, PLAIN)
LANGCHAIN_CLAUDE = Harness(
    "langchain-anthropic",
    "anthropic",
    "claude-haiku-4-5",
    _CODER,
    dress.dress_plainly,
    PLAIN,
    ids="toolu",
)
LOCAL = replace(LANGCHAIN, name="langchain-local", model="qwen3-coder-30b", ids="call_0")
AUTOGEN = replace(LANGCHAIN, name="autogen", model="gpt-4o-2024-11-20", stream=False)
PYDANTIC_AI = replace(LANGCHAIN, name="pydantic-ai", model="gpt-5-mini")
AGENTS_SDK = Harness(
    "openai-agents",
    "responses",
    "gpt-5-mini",
    _CODER,
    dress.dress_plainly,
    PLAIN,
    has_item_ids=True,
)
RESPONSES_LOOP = replace(AGENTS_SDK, name="responses-sdk", model="gpt-5")
ADK = Harness(
    "google-adk", "gemini", "gemini-2.5-pro", _CODER, dress.dress_plainly, PLAIN, ids="none"
)
