"""A local stand-in for OpenAI, Anthropic and Gemini, for tests and the demo.

provider    FakeProvider: listens, keeps what it received, answers by a script
reply       Reply: what to answer (text, a tool call, a status …) and how it is interrupted
gate        Gate: holds an answer back until a test opens it
received    Received: one request as it arrived
said        Said: a model's turn, before it takes a dialect's form
render      render(received, reply): the table of dialects; one module for each of them
"""

from looptrap.testing.gate import Gate, Signal
from looptrap.testing.provider import FakeProvider
from looptrap.testing.received import Received
from looptrap.testing.reply import Reply
from looptrap.testing.said import Tokens

__all__ = ["FakeProvider", "Gate", "Received", "Reply", "Signal", "Tokens"]
