"""A local stand-in for OpenAI, Anthropic and Gemini, for tests and the demo.

provider    FakeProvider: listens, keeps what it received, answers by a script
reply       Reply: what to answer (text, a tool call, a status …) and how it is interrupted
gate        Gate: holds an answer back until a test opens it
received    Received: one request as it arrived
said        Said: a model's turn, before it takes a dialect's form
render      render(received, reply): the table of dialects; one module for each of them
"""

from looptrap.testing.model_answer import Tokens
from looptrap.testing.provider import FakeProvider, Received
from looptrap.testing.reply import Gate, Reply, Signal

__all__ = ["FakeProvider", "Gate", "Received", "Reply", "Signal", "Tokens"]
