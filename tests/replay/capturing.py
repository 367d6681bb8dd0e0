"""Folders of captures, written as the gateway writes them."""

from pathlib import Path

import msgspec

from looptrap.dialect.model import Request
from looptrap.dialect.registry import read
from looptrap.gateway.capture import CaptureEncoder
from looptrap.policy.verdict import ALLOWED

CHAT = "/v1/chat/completions"
BEGAN = 1_750_000_000.0


class Capturing:
    """Writes calls into files of a folder, one call a second."""

    def __init__(self, folder: Path, form: str = "content") -> None:
        self.folder = folder
        self.now = BEGAN
        self._form = form
        self._files = 0
        folder.mkdir(exist_ok=True)
        self.next_file()

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir())

    def next_file(self) -> None:
        """Go on in another file."""
        self._files += 1
        self._lines = CaptureEncoder(self._form, b"secret" * 8)
        self._path = self.folder / f"looptrap-20250615T00000{self._files}.000000Z-1.jsonl"

    def call(self, messages, **request) -> None:
        """Write one call."""
        body = msgspec.json.encode({"model": "gpt-x", "messages": messages})
        call = read(Request(path=CHAT, body=body, **request))
        self.now += 1
        with self._path.open("ab") as file:
            file.write(self._lines.line(call, ALLOWED, self.now))

    def run(self, messages, **request) -> None:
        """Write every request of a run of rounds with two messages each."""
        for end in range(1, len(messages) + 1, 2):
            self.call(messages[:end], **request)
