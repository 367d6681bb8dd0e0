"""AgentNames: which agent sent a call, for the metrics and the log of calls.

Agents are recognised by their headers, which are read once for equal heads, or by their prompts. To
search the prompts of every call would cost a tenth of what it costs to pass it on, so the first
prompt of a client on a connection decides: all of its calls there are from one program.
"""

from __future__ import annotations

from looptrap.bounded import LruMap
from looptrap.dialect.agent import agent_of
from looptrap.dialect.model import Call
from looptrap.gateway.request_context import RequestContext
from looptrap.wire.server_connection import ServerConnection

MAX_CLIENTS = 20_000
"""Clients whose agents are remembered: a library and a caller on a connection each."""


class AgentNames:
    """The names of the agents that send calls; bounded."""

    def __init__(self) -> None:
        self._names: LruMap[tuple[int, bytes, str], str] = LruMap(MAX_CLIENTS)

    def of(self, call: Call, context: RequestContext, connection: ServerConnection) -> str:
        """Return the name of the agent that sent a call; "" where it is not recognised."""
        if context.agent:
            return context.agent
        client = (connection.number, context.user_agent, context.identity.caller)
        name = self._names.get(client)
        if name is None:
            if not call.generates:
                return ""  # it has no prompt: the next call decides
            name = self._names[client] = agent_of(call).name
        return name
