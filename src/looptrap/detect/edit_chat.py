"""Edit chats: the histories of aider, whose model answers with edits and calls no tools.

What aider did with an answer stands behind it as messages of the user: that the files were updated,
or why not; what the linter said; which command it ran, and its output. They are read as the results
of the answer. aider also says "Ok." in the model's place, shows the files as they are now in front
of the latest messages, and repeats the end of its system prompt at the very end. None of this is
said by anyone, and it would hide what was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import zip_longest

import msgspec

from looptrap.detect.canonical import join
from looptrap.dialect.content import canonical
from looptrap.dialect.model import Call, Message, ToolCall, ToolResult

EDIT, RUN, LINT = "edit", "run", "lint"
"""What aider does with an answer, by the names that tools for it have."""

SAME_LINE = "user, again"
"""The role of a line that the user says again after an edit or a command: it goes on with the same
work. After mere words it is a question, as in any chat."""

MIN_REMINDER_CHARS = 40
MAX_REPLY_BYTES = 240
"""Bytes of a message in which aider agrees in the model's place, and …"""
MAX_START_BYTES = 320
"""… of the beginning of the message before, which says what this is about."""

QUOTED_CHARS = 40
"""Characters of an answer by which it is known again in a complaint about it."""

_OK = "Ok"
_RAW_OK = b'"Ok'
_FILES = re.compile(
    r"\*added these files to the chat\*|I am not sharing |Don't try and edit any existing code"
    r"|Here is the current content of the files?:|These are some files we have been discussing"
)
"""How aider shows the files that the chat is about, or says that there are none."""
_RAW_FILES = re.compile(_FILES.pattern.encode())
_BACKGROUND = re.compile(
    r"Here are some READ ONLY files|(?:.*\n)?.*\bsummaries of (?:some|other) files"
)
_END_OF_EXAMPLES = "I switched to a new code base."

_EDITED = re.compile(r"I (?:updated the files\.|committed the changes with|made those changes)")
_RAN = re.compile(r"I ran this command:\n(.*?)\nAnd got this output:", re.DOTALL)
_SHELL = re.compile(r"Output from ([^\n]*)\n")
_LINTED = "# Fix any errors below"
_REJECTED = re.compile(
    r"# \d+ SEARCH/REPLACE blocks? failed|UnifiedDiff\w+:|I didn't see any properly formatted edits"
    r"|No filename provided before|Un(?:paired|matched) \.\.\. in|I added these files to the chat:"
    r"|(?:Unexpected error|Error) (?:parsing|applying) "
)
_UPDATED = "I updated the files."
_MARK = "<<<<<<< SEARCH"


class EditChat(Call):
    """A call of an edit chat, with its answers and what became of them as rounds."""

    sent: Call | None = None
    """The call as it was sent."""
    state: bytes = b""
    """A digest of the latest messages, and of the files of the chat as they are now."""


_encode = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder(Message).decode


def read_edit_chat(call: Call) -> EditChat | None:
    """Return a call of an edit chat with its history as rounds; None for any other call."""
    if call.read_tools is not None or not call.generates or not _shows_files(call):
        return None
    first, *rest = call.messages
    chat = _Chat()
    chat.read(_without_reminder(rest, first.text))
    try:
        messages = [first, *chat.messages()]
        raws = [msgspec.Raw(_encode(message)) for message in messages]
    except UnicodeError:  # half of a character; such a history is judged as it was sent
        return None
    latest = [bytes(raw).decode() for raw in raws[-3:]]
    state = blake2b(join([call.request.caller, call.model, chat.files, *latest]), digest_size=16)
    fields = {name: getattr(call, name) for name in Call.__struct_fields__}
    fields |= {"raws": raws, "read": _read, "peek": None, "has_split_turns": False, "sizes": None}
    fields |= {"_messages": messages, "_tail": None}
    return EditChat(**fields, sent=call, state=state.digest())


def _shows_files(call: Call) -> bool:
    """Return, without decoding a message, whether a request has the files of an edit chat."""
    raws, body = call.raws, call.request.body
    if body and _RAW_OK not in body:
        return False
    for place in range(len(raws) - 1, 0, -1):
        raw = raws[place]
        if len(raw) > MAX_REPLY_BYTES or _RAW_OK not in bytes(raw):
            continue
        if _RAW_FILES.search(memoryview(raws[place - 1])[:MAX_START_BYTES]) is not None:
            return True
    return False


def _without_reminder(messages: Sequence[Message], system: str) -> Sequence[Message]:
    """Return messages without the end of the system prompt, which aider repeats at the end."""
    if not messages:
        return messages
    *before, last = messages
    chars = _common_end(last.text, system)
    if chars < MIN_REMINDER_CHARS:
        return messages
    line = last.text[: len(last.text) - chars]
    return [*before, Message(last.role, line)] if line.strip() else before


def _common_end(text: str, other: str) -> int:
    """Return how many last characters two texts share."""
    least, most = 0, min(len(text), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if other.endswith(text[len(text) - middle :]):
            least = middle
        else:
            most = middle - 1
    return least


class _Answer:
    """An answer of the model, and what aider said about it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.reports: dict[str, None] = {}  # each once: a failing test is shown twice

    def takes(self, text: str) -> bool:
        """Return whether a message of the user says what became of the answer, and keep it."""
        is_report = (
            _EDITED.match(text) is not None
            or _REJECTED.match(text) is not None
            or _SHELL.match(text) is not None
            or ("\n^^^ " in text and text.startswith(self.text[:QUOTED_CHARS]))
            # Without an edit before, a person had the command run.
            or (bool(self.reports) and (text.startswith(_LINTED) or _RAN.match(text) is not None))
        )
        if is_report:
            self.reports[text] = None
        return is_report

    @property
    def is_work(self) -> bool:
        """Whether it is more than words. aider gives up on a line without a word about the edit."""
        return bool(self.reports) or _MARK in self.text or bool(_fenced(self.text)[0])

    def share_fate(self, earlier: _Answer) -> None:
        """Take what was said about the answer before for this one too, if it has the same edits.

        Where aider gives up on a line, it leaves out why it rejected an edit.
        """
        is_less_said = self.reports.keys() < earlier.reports.keys()
        if is_less_said and earlier.is_rejected and self.edits == earlier.edits:
            self.reports = dict(earlier.reports)

    @property
    def is_rejected(self) -> bool:
        """Whether aider could not make its edits."""
        return any(_REJECTED.match(report) for report in self.reports)

    @property
    def edits(self) -> str:
        """Its edits, without what it says beside them."""
        return _edit_and_words(self.text)[0]

    def messages(self) -> Iterator[Message]:
        """Yield the answer, with its results where there are any."""
        if not self.reports:
            yield Message("assistant", self.text)
            return
        done: list[tuple[str, str, str]] = []
        edits: list[str] = []
        for report in self.reports:
            if (ran := _RAN.match(report) or _SHELL.match(report)) is not None:
                command = canonical({"command": ran[1].strip("\n")})
                done.append((RUN, command, report[ran.end() :].strip()))
            elif report.startswith(_LINTED):
                done.append((LINT, "{}", report))
            else:
                # The hash and the message of a commit differ each time.
                edits.append(_UPDATED if _EDITED.match(report) is not None else report)
        edited, said = _edit_and_words(self.text)
        if edits:
            done.insert(0, (EDIT, canonical({"edits": edited}), "\n".join(edits)))
        calls = tuple(ToolCall("", name, arguments) for name, arguments, _ in done)
        results = tuple(ToolResult("", result, name=name) for name, _, result in done)
        yield Message("assistant", said, calls)
        yield Message("tool", "", (), results)


class _Chat:
    """Reads the messages of an edit chat, from the first to the last."""

    def __init__(self) -> None:
        self.files = ""
        self._entries: list[_Answer | Message] = []
        self._line = ""
        self._latest: _Answer | None = None
        """The latest answer to that line, however often it was said."""

    def read(self, messages: Sequence[Message]) -> None:
        """Read all messages after the first."""
        is_courtesy = bool(messages) and messages[0].role == "assistant"
        for message, following in zip_longest(messages, messages[1:]):
            if is_courtesy:
                is_courtesy = False
            elif message.role == "assistant":
                self._latest = _Answer(message.text)
                self._entries.append(self._latest)
            elif message.role == "user":
                is_courtesy = self._hear(message, following is not None and _is_ok(following))
            else:
                self._entries.append(message)

    def _hear(self, message: Message, is_agreed: bool) -> bool:
        """Take a message of the user; return whether the next one is aider's agreement."""
        text = message.text.strip()
        if is_agreed and text.startswith(_END_OF_EXAMPLES):
            self._entries.clear()
        elif is_agreed and _FILES.search(text, 0, MAX_START_BYTES) is not None:
            self.files = text
        elif is_agreed and _BACKGROUND.match(text, 0, MAX_START_BYTES) is not None:
            pass
        elif self._is_joined(text):
            self._entries.append(Message(SAME_LINE, self._line))
            return is_agreed
        elif self._is_about_answer(text):
            return is_agreed
        else:
            is_again = text == self._line and self._latest is not None and self._latest.is_work
            role = SAME_LINE if is_again else "user"
            self._latest = self._latest if is_again else None
            self._line = text
            self._entries.append(Message(role, text, message.calls, message.results))
            return is_agreed and _RAN.match(text) is not None
        return True

    def _is_joined(self, text: str) -> bool:
        """Return whether the line follows a report in one message; if so, keep the report.

        Where nothing was answered between, as after a refusal, a library joins the two for Claude.
        """
        report = text.removesuffix(f"\n{self._line}").strip()
        return bool(self._line) and report != text and self._is_about_answer(report)

    def _is_about_answer(self, text: str) -> bool:
        latest = self._entries[-1] if self._entries else None
        return isinstance(latest, _Answer) and latest.takes(text)

    def messages(self) -> Iterator[Message]:
        """Yield the messages in neutral form."""
        before: _Answer | None = None
        for entry in self._entries:
            if isinstance(entry, _Answer):
                if before is not None:
                    entry.share_fate(before)
                before = entry
                yield from entry.messages()
            else:
                before = before if entry.role == SAME_LINE else None
                yield entry


def _is_ok(message: Message) -> bool:
    is_short = len(message.text) <= MAX_REPLY_BYTES
    return message.role == "assistant" and is_short and message.text.startswith(_OK)


def _edit_and_words(text: str) -> tuple[str, str]:
    """Return the edits of an answer, with the names of their files, and what it says beside them.

    Where no edit is fenced as most are, the answer is one as a whole.
    """
    blocks, words = _fenced(text)
    if not blocks:
        return text, ""
    return "\n".join(f"{name}\n{block}" for name, block in blocks), words


def _fenced(text: str) -> tuple[Sequence[tuple[str, str]], str]:
    """Return the fenced blocks of a text, each with the line before it, and the other lines."""
    blocks: list[tuple[str, str]] = []
    outside: list[str] = []
    block: list[str] = []
    fence = name = ""
    for line in [*text.split("\n"), None]:
        if not fence:
            if line is None:
                break
            if line.startswith("```"):
                fence = line[: len(line) - len(line.lstrip("`"))]
                name = outside.pop().strip() if outside else ""
                block = []
            else:
                outside.append(line)
        elif line is None or line.startswith(fence):
            blocks.append((name, "\n".join(block)))
            fence = ""
        else:
            block.append(line)
    return blocks, "\n".join(outside).strip()
