"""How the chat of aider is read: which messages are rounds, and which nobody said."""

import pytest
from tests.engine.edit_session import FILES, RULES, SYSTEM, TEST, edit, ran

from looptrap.detect.edit_chat import SAME_LINE, read_edit_chat
from looptrap.dialect.body import read_body

OK = ("assistant", "Ok.")
AGREED = ("assistant", "Ok, any changes I propose will be to those files.")
SHOWN = [("user", f"{FILES}\napp.py\n```\nSTEP = 0\n```\n"), AGREED]
SYSTEM_MESSAGE = ("system", SYSTEM)
UPDATED = ("user", "I updated the files.")
LINE = ("user", "Mend it.")
FAILED = "# 1 SEARCH/REPLACE block failed to match!"


def read(*messages, **more):
    sent = [{"role": role, "content": text} for role, text in messages]
    return read_edit_chat(read_body({"model": "gpt-4o", "messages": sent, **more}))


def outline(chat):
    """Return what each message after the first is: its role, and what was done or came of it."""
    return [
        (one.role, *(call.name for call in one.calls), *(result.text for result in one.results))
        for one in chat.messages[1:]
    ]


EDITED = ("assistant", "edit")
CASES = {
    "only a line": ([*SHOWN, LINE], [("user",)]),
    "an edit, and another line": (
        [LINE, ("assistant", edit(0, 1)), UPDATED, OK, *SHOWN, ("user", "And then?")],
        [("user",), EDITED, ("tool", "I updated the files."), ("user",)],
    ),
    "the same line again": (
        [LINE, ("assistant", edit(0, 1)), UPDATED, OK, *SHOWN, LINE],
        [("user",), EDITED, ("tool", "I updated the files."), (SAME_LINE,)],
    ),
    "the same line again, after words": (
        [*SHOWN, LINE, ("assistant", "It is fine."), LINE],
        [("user",), ("assistant",), ("user",)],
    ),
    "the same line again, after no answer": (
        [LINE, ("assistant", edit(0, 1)), UPDATED, OK, *SHOWN, LINE, LINE],
        [("user",), EDITED, ("tool", "I updated the files."), (SAME_LINE,), (SAME_LINE,)],
    ),
    "the same line again, joined to a report": (
        [
            *(LINE, ("assistant", edit(0, 1)), UPDATED, OK, *SHOWN),
            *(("user", ran("1 failed")), OK, ("user", f"{ran('1 failed')}\nMend it.")),
        ],
        [
            ("user",), ("assistant", "edit", "run"), ("tool", "I updated the files.", "1 failed"),
            (SAME_LINE,),
        ],
    ),
    "an edit that does not fit, twice, and then no word about it": (
        [
            *(LINE, ("assistant", edit(9, 1)), UPDATED, OK, ("user", FAILED)),
            *(("assistant", edit(9, 1, say="Again:")), UPDATED, OK, *SHOWN, LINE),
        ],
        [
            ("user",), EDITED, ("tool", f"I updated the files.\n{FAILED}"),
            EDITED, ("tool", f"I updated the files.\n{FAILED}"), (SAME_LINE,),
        ],
    ),
    "an edit that does not fit, and then another one": (
        [
            *(LINE, ("assistant", edit(9, 1)), UPDATED, OK, ("user", FAILED)),
            *(("assistant", edit(0, 1)), UPDATED, OK, *SHOWN, LINE),
        ],
        [
            ("user",), EDITED, ("tool", f"I updated the files.\n{FAILED}"),
            EDITED, ("tool", "I updated the files."), (SAME_LINE,),
        ],
    ),
    "a commit": (
        [
            LINE, ("assistant", edit(0, 1)),
            ("user", "I committed the changes with git hash 12ab34c & commit msg: fix: it"), OK,
            *SHOWN, ("user", "And then?"),
        ],
        [("user",), EDITED, ("tool", "I updated the files."), ("user",)],
    ),
    "a test that fails, shown twice": (
        [
            LINE, ("assistant", edit(0, 1)), UPDATED, OK, *SHOWN,
            ("user", ran("1 failed")), OK, ("user", ran("1 failed")),
        ],
        [("user",), ("assistant", "edit", "run"), ("tool", "I updated the files.", "1 failed")],
    ),
    "an error of the linter": (
        [
            LINE, ("assistant", edit(0, 1)), UPDATED, OK, *SHOWN,
            ("user", "# Fix any errors below, if possible.\n\nE999"),
        ],
        [
            ("user",), ("assistant", "edit", "lint"),
            ("tool", "I updated the files.", "# Fix any errors below, if possible.\n\nE999"),
        ],
    ),
    "an edit that does not fit": (
        [
            *SHOWN, LINE, ("assistant", edit(9, 1)),
            ("user", "# 1 SEARCH/REPLACE block failed to match!"),
        ],
        [("user",), EDITED, ("tool", "# 1 SEARCH/REPLACE block failed to match!")],
    ),
    "a command of the model": (
        [
            *SHOWN, LINE, ("assistant", "Run this:\n```bash\nls\n```"),
            ("user", "Output from ls\napp.py\n"), ("assistant", "Ok"), ("user", "And then?"),
        ],
        [("user",), ("assistant", "run"), ("tool", "app.py"), ("user",)],
    ),
    "a command of the user": (
        [*SHOWN, LINE, ("assistant", "It is fine."), ("user", ran("1 failed")), OK, LINE],
        [("user",), ("assistant",), ("user",), ("user",)],
    ),
    "examples, a map and files for reading": (
        [
            ("user", "Use math.factorial"), ("assistant", edit(1, 2)),
            ("user", "I switched to a new code base. Please don't consider the above files"), OK,
            ("user", "Here are some READ ONLY files, provided for your reference.\nA"),
            ("assistant", "Ok, I will use these files as references."),
            ("user", "Here are summaries of some files present in my git repository.\nB"),
            ("assistant", "Ok, I won't try and edit those files without asking first."),
            *SHOWN, LINE,
        ],
        [("user",)],
    ),
    "no files": (
        [("user", "I am not sharing any files that you can edit yet."), OK, LINE],
        [("user",)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_messages_are_read_as(kind):
    messages, expected = CASES[kind]
    assert outline(read(SYSTEM_MESSAGE, *messages)) == expected


@pytest.mark.parametrize("kind", CASES)
def test_a_reminder_at_the_end_changes_nothing(kind):
    messages, expected = CASES[kind]
    *before, (role, text) = messages
    in_system = read(SYSTEM_MESSAGE, *messages, ("system", RULES))
    in_line = read(SYSTEM_MESSAGE, *before, (role, f"{text}\n\n{RULES}"))
    assert outline(in_system) == outline(in_line) == expected


def test_an_edit_has_the_name_of_its_file_and_no_remarks():
    text = f"I see.\n\n{edit(0, 1, 'src/app.py')}\nThat is all."
    chat = read(SYSTEM_MESSAGE, LINE, ("assistant", text), UPDATED, OK, *SHOWN, LINE)
    answer = chat.messages[2]
    assert "src/app.py" in answer.calls[0].arguments
    assert answer.text == "I see.\n\n\n\nThat is all."


def test_a_command_is_known_by_its_words():
    run = [("user", ran("1 failed")), OK, ("user", ran("1 failed"))]
    chat = read(SYSTEM_MESSAGE, LINE, ("assistant", edit(0, 1)), UPDATED, OK, *SHOWN, *run)
    assert chat.messages[2].calls[1].arguments == f'{{"command":"{TEST}"}}'


def test_the_files_belong_to_the_state():
    one = read(SYSTEM_MESSAGE, *SHOWN, LINE)
    other = read(SYSTEM_MESSAGE, (SHOWN[0][0], SHOWN[0][1].replace("0", "1")), AGREED, LINE)
    assert one.state == read(SYSTEM_MESSAGE, *SHOWN, LINE).state != other.state


def test_claude_has_the_system_prompt_in_a_field_of_its_own():
    messages = [*SHOWN, ("user", f"Mend it.\n\n{RULES}")]
    body = {
        "model": "claude-sonnet-4-5",
        "system": SYSTEM,
        "max_tokens": 100,
        "messages": [
            {"role": role, "content": [{"type": "text", "text": text}]} for role, text in messages
        ],
    }
    chat = read_edit_chat(read_body(body, "/v1/messages"))
    assert [(one.role, one.text) for one in chat.messages[1:]] == [("user", "Mend it.")]


@pytest.mark.parametrize(
    ("messages", "more"),
    [
        pytest.param([LINE, ("assistant", "Ok."), LINE], {}, id="a model that agrees"),
        pytest.param([SHOWN[0], ("assistant", edit(0, 1)), LINE], {}, id="files in a question"),
        pytest.param(
            [*SHOWN, LINE],
            {"tools": [{"type": "function", "function": {"name": "edit"}}]},
            id="an agent with tools",
        ),
        pytest.param([], {}, id="no messages"),
    ],
)
def test_other_calls_are_left_as_they_are(messages, more):
    assert read(*messages, **more) is None
