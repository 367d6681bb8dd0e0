"""The same call in a row, while its result merely grows or shifts."""

import pytest
from tests.detect.runs import Person, Use, count
from tests.detect.signals.steps import LS, case, in_both_dialects, reading


def append(times):
    """A call that writes the same line again, and shows the file."""
    before, after = "import sys\nimport json\n", "def main():\n    return os.getcwd()\n" * 6
    return Use(
        "insert", {"at": 3, "text": "import os.path"}, before + "import os.path\n" * times + after
    )


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case([append(times) for times in range(1, 7)], 6, id="an append loop"),
        case([append(1), append(2), LS, append(3)], 0, id="something between"),
        case(
            [append(1), Use("insert", {"at": 9}, append(2).result), append(3), append(4)],
            2,
            id="another call between, its result alike",
        ),
        case([append(1), append(2), LS], 0, id="the latest is another call"),
        case([append(1)], 0, id="once"),
        case([reading(page) for page in range(8)], 0, id="paging: every page is new"),
        case(
            [Use("job_status", {"id": 7}, f"{n} of 90 parts done") for n in range(8)],
            0,
            id="polling that changes",
        ),
        case([append(1), append(2), Person("Again"), append(3)], 0, id="a user's message resets"),
        case(
            [Use("create_ticket", {"title": "x"}, f'{{"id": "T-{n}"}}') for n in range(100, 105)],
            5,
            id="the same thing created again",
        ),
        case(
            [
                Use("put", {"text": "import os"}, "import os\n" * n + "x = 1\n" * 40)
                for n in range(1, 6)
            ],
            5,
            id="a short line that piles up",
        ),
        case(
            [
                Use(
                    "click", {"element": "Next page", "ref": "e9"}, "Next page\n" * 30 + f"item {n}"
                )
                for n in range(6)
            ],
            0,
            id="the same click leads on",
        ),
        case(
            [Use("python", {"code": "fit()\nlog.to_csv('a')"}, f"loss {n}" * 9) for n in range(6)],
            0,
            id="a script that trains on",
        ),
    ],
)
def test_mutating_repeat(write, steps, expected):
    assert count("mutating_repeat", write, steps) == expected
