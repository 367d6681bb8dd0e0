"""The session that an agent names by itself, in a header or in the body of its calls."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from looptrap.dialect.content import ABSENT, decode_or_none
from looptrap.dialect.model import MAX_NAME_CHARS, Call

CLAUDE_CODE_SESSION = b"x-claude-code-session-id"
CLAUDE_CODE_AGENT = b"x-claude-code-agent-id"
"""A subagent, which has the session of its parent."""

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

_READ_HEADERS = frozenset((*AGENT_SESSION_HEADERS, CLAUDE_CODE_AGENT))

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
    return (_session_in_headers(call) or _session_in_body(call))[:MAX_NAME_CHARS]


def _session_in_headers(call: Call) -> str:
    sent: dict[bytes, str] = {}
    for name, value in call.request.headers:
        if name in _READ_HEADERS and (text := value.decode("latin-1").strip()):
            sent.setdefault(name, text)
    if not sent:
        return ""
    found = next((name for name in AGENT_SESSION_HEADERS if name in sent), b"")
    if found == CLAUDE_CODE_SESSION and CLAUDE_CODE_AGENT in sent:
        # Short enough that a long session does not cut the agent off.
        session = sent[found][: MAX_NAME_CHARS // 2]
        return f"{session}:{sent[CLAUDE_CODE_AGENT]}"
    return sent.get(found, "")


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
