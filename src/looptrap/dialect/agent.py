"""Agents: the client programs that are recognised, and the sessions that they name.

Recognition decides the form of a refusal, and it names the agent in incidents and metrics. It does
not decide who pays or what is a loop, so a client that claims another name gains nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from typing import Any, Literal, NamedTuple

import msgspec

from looptrap.dialect.content import ABSENT, decode_or_none
from looptrap.dialect.model import MAX_NAME_CHARS, Call, ToolCall

AUTO: Literal["auto"] = "auto"
BlockStatus = int | Literal["auto"]
"""The status of a refused loop; `auto` is the one that ends the client."""


class FinishTool(NamedTuple):
    """The tool whose call ends the run of an agent."""

    name: str
    arguments: Callable[[str], dict[str, str]]
    """Returns the arguments of the call that reports a text."""


class Agent(msgspec.Struct, frozen=True, kw_only=True):
    """A client program: how it is recognised, and which refusal ends its run."""

    name: str
    """The name that people know, in incidents and metrics too."""
    user_agents: tuple[bytes, ...] = ()
    """How its `User-Agent` begins, in lower case."""
    header: bytes = b""
    """A header that only this program sends."""
    prompts: tuple[bytes, ...] = ()
    """What its first messages contain, where its headers are those of a library."""
    status: int | None = None
    """The status of a refusal that ends it at once; None where the usual one does."""
    shows_messages_only: bool = False
    """Whether it shows the reason only in a final message: that is sent in place of an error."""
    code: str | None = None
    """The error code with which it shows the message of an error, and not the whole body."""
    shows_body: bool = False
    """Whether it shows the whole body of an error."""
    reads_errors: bool = False
    """Whether it sends a call again, or hides the reason, if anything in the error looks like a
    failure that passes, such as 503, whatever the status."""
    finish: FinishTool | None = None
    """The tool with which a final message ends its run, where text alone does not."""


SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""A command whose output begins with this line ends a run of mini-swe-agent."""


AGENTS = (
    # With Anthropic's API it calls itself claude-cli, with a version of its own.
    Agent(
        name="Qwen Code",
        user_agents=(b"qwencode/", b"claude-cli/0."),
        status=400,
        shows_body=True,
        reads_errors=True,
    ),
    Agent(name="Claude Code", user_agents=(b"claude-cli/",), header=b"x-claude-code-session-id"),
    Agent(name="Codex", user_agents=(b"codex",), status=400, code="invalid_prompt"),
    Agent(name="Gemini CLI", user_agents=(b"geminicli",), status=400, shows_body=True),
    Agent(name="opencode", user_agents=(b"opencode/",), status=400, reads_errors=True),
    Agent(
        name="Inspect",
        header=b"x-irid",
        status=403,
        finish=FinishTool("submit", lambda text: {"answer": text}),
    ),
    Agent(name="OpenHands", prompts=(b"You are OpenHands agent",), shows_messages_only=True),
    Agent(name="Cline", prompts=(b"You are Cline,",), status=400),
    Agent(
        name="aider",
        prompts=(b"*SEARCH/REPLACE block*", b"*file listing*"),
        status=400,
        reads_errors=True,
    ),
    Agent(
        name="mini-swe-agent",
        prompts=(SUBMIT.encode(),),
        status=404,
        reads_errors=True,
        finish=FinishTool("bash", lambda text: {"command": f"echo {SUBMIT}; echo {quote(text)}"}),
    ),
)
"""Measured with the real programs: docs/reference/clients.md has the results."""

UNKNOWN = Agent(name="")

MAX_PROMPT_BYTES = 65_536
"""Bytes of each of the first two messages in which prompts of agents are looked for."""


def agent_of(call: Call) -> Agent:
    """Return the program that sent a call; UNKNOWN where it is not recognised."""
    if call.request.agent:
        return next((one for one in AGENTS if one.name == call.request.agent), UNKNOWN)
    opening = b"".join([memoryview(raw)[:MAX_PROMPT_BYTES] for raw in call.raws[:2]])
    return agent_by_headers(call.request.headers, opening)


def agent_by_headers(headers: Iterable[tuple[bytes, bytes]], opening: bytes = b"") -> Agent:
    """Return the program that sends such headers, or such an opening of its first messages."""
    sent = {name: value for name, value in headers if name in _RECOGNISING_HEADERS}
    user_agent = sent.get(b"user-agent", b"").lower()
    for agent in AGENTS:
        if (
            user_agent.startswith(agent.user_agents)
            or agent.header in sent
            or any(prompt in opening for prompt in agent.prompts)
        ):
            return agent
    return UNKNOWN


_PASSING = re.compile(
    r"429|50[0234]|524|rate[\s_-]*limit|(?:server|internal|network)[\s_-]error|too many requests"
    r"|overload|unavailable|exhausted|terminated|time[sd]?[\s_-]?out|fetch failed",
    re.IGNORECASE,
)
"""What such agents take for a failure that passes."""

WORD_JOINER = "\u2060"
"""A character that is not seen."""


def without_passing_signs(text: str) -> str:
    """Return a text that reads the same, and in which no agent finds a failure that passes."""
    return _PASSING.sub(lambda sign: WORD_JOINER.join(sign[0]), text)


def finishing_calls(call: Call, text: str) -> tuple[ToolCall, ...]:
    """Return the tool calls that a final message needs to end the agent's run: mostly none."""
    finish = agent_of(call).finish
    if finish is None or finish.name not in call.tools:
        return ()
    arguments = msgspec.json.encode(finish.arguments(text)).decode()
    return (ToolCall("call_looptrap", finish.name, arguments),)


AGENT_HEADERS = frozenset(one.header for one in AGENTS if one.header)
"""Headers that only one of the agents sends."""

_RECOGNISING_HEADERS = AGENT_HEADERS | {b"user-agent"}

# Sessions

CLAUDE_CODE_SESSION = b"x-claude-code-session-id"
CLAUDE_CODE_AGENT = b"x-claude-code-agent-id"

AGENT_SESSION = b"session-id"
AGENT_SESSION_HEADERS = (
    CLAUDE_CODE_SESSION,
    AGENT_SESSION,
    b"session_id",
    b"x-session-affinity",
    b"x-qwen-code-session-id",
    b"x-opencode-session",
    b"x-amp-thread-id",
    b"x-session-id",
    b"conversation_id",
    b"conversation-id",
)
"""Headers in which agents name the session of a call; the first one counts."""

_PARTS = {CLAUDE_CODE_SESSION: CLAUDE_CODE_AGENT, AGENT_SESSION: b"thread-id"}
"""Headers that name a part of a session: a subagent, or a thread of Codex."""

SESSION_FIELDS = frozenset((*AGENT_SESSION_HEADERS, *_PARTS.values()))
"""Headers from which sessions of agents are read."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class _Metadata(msgspec.Struct, gc=False):
    session_id: Any = None
    thread_id: Any = None
    conversation_id: Any = None
    user_id: Any = None


class _Body(msgspec.Struct, gc=False):
    metadata: msgspec.Raw = ABSENT
    prompt_cache_key: Any = None


class _UserId(msgspec.Struct, gc=False):
    session_id: Any = None


_decode_body = msgspec.json.Decoder(_Body).decode
_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_user_id = msgspec.json.Decoder(_UserId).decode


def agent_session_of(call: Call) -> str:
    """Return the session that the agent names, whatever the operator has configured; or ""."""
    sent: dict[bytes, bytes] = {}
    for name, value in call.request.headers:
        if name in SESSION_FIELDS:
            sent.setdefault(name, value)
    return (session_in_headers(sent) or _session_in_body(call))[:MAX_NAME_CHARS]


def session_in_headers(headers: Mapping[bytes, bytes]) -> str:
    """Return the session in the headers (lower-case) of a known agent; or ""."""
    for name in AGENT_SESSION_HEADERS:
        if session := headers.get(name, b"").decode("latin-1").strip():
            part = headers.get(_PARTS.get(name, b""), b"").decode("latin-1").strip()
            # Codex names its first thread like the session.
            return session if part in ("", session) else _part_of_session(session, part)
    return ""


def main_session_of(call: Call) -> str:
    """Return the session of a call; for a subagent, or a thread, that of the agent it belongs to.

    Loops are judged for each subagent. What a run may cost, and whether it is killed, is decided
    for all of it.
    """
    named = call.request.session
    if ":" not in named:
        return named
    for name, part_name in _PARTS.items():
        session, part = (
            (call.request.header(one) or b"").decode("latin-1").strip() for one in (name, part_name)
        )
        if session and part and named == _part_of_session(session, part):
            return session
    return named


def _part_of_session(session: str, part: str) -> str:
    # Short enough that a long session does not cut the part off.
    return f"{session[: MAX_NAME_CHARS // 2]}:{part}"


def _session_in_body(call: Call) -> str:
    sent = call.request.body
    if b'"metadata"' not in sent and b'"prompt_cache_key"' not in sent:
        return ""
    body = decode_or_none(sent, _decode_body)
    if body is None:
        return ""
    metadata = decode_or_none(body.metadata, _decode_metadata) or _Metadata()
    for name in (
        metadata.session_id,
        metadata.thread_id,
        metadata.conversation_id,
        _session_in_user_id(metadata.user_id),
        body.prompt_cache_key,  # last: applications may share the key of a cache among sessions
    ):
        if isinstance(name, str) and (session := name.strip()):
            return session
    return ""


def _session_in_user_id(user_id: object) -> Any:
    """Return the session in the id of a user, where Claude Code puts it for Anthropic's API."""
    if not isinstance(user_id, str):
        return None
    if user_id.startswith("{"):
        found = decode_or_none(user_id, _decode_user_id)
        return found.session_id if found is not None else None
    user, _, session = user_id.rpartition("_session_")
    is_legacy = user.startswith("user_") and "_account_" in user
    return session if is_legacy and _UUID.fullmatch(session) else None
