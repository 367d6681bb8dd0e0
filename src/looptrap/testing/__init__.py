"""A local stand-in for OpenAI, Anthropic and Gemini, for tests and the demo.

provider    FakeProvider: listens, records requests (Received), answers by a script
reply       Reply: an answer (text, a tool call, a status …); Gate: delays an answer
stuck_agent the agent of the demo, and the price of its model

Each dialect of `looptrap.dialect` writes its own answers.
"""

from looptrap.testing.provider import FakeProvider, Received
from looptrap.testing.reply import Gate, Reply, Signal, Tokens

__all__ = ["FakeProvider", "Gate", "Received", "Reply", "Signal", "Tokens"]
