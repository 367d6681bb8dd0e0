"""A local stand-in for OpenAI, Anthropic and Gemini, for tests and the demo.

provider    FakeProvider: listens, keeps what it received (Received), answers by a script
reply       Reply: what to answer (text, a tool call, a status …); Gate: holds an answer back

What it says in each dialect stands in `looptrap.dialect`.
"""

from looptrap.dialect.fake_answer import Tokens
from looptrap.testing.provider import FakeProvider, Received
from looptrap.testing.reply import Gate, Reply, Signal

__all__ = ["FakeProvider", "Gate", "Received", "Reply", "Signal", "Tokens"]
