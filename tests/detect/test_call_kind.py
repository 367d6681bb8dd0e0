"""Which calls change something: by their tool's name, by what it is told, or by their command."""

import json

import pytest

from looptrap.detect.call_kind import adds_something, changes_something

case = pytest.param


def shell(command):
    return "bash", {"command": command}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        case("Edit", {"file_path": "a"}, id="by name"),
        case("mcp__github__create_issue", {}, id="by a long name"),
        case("updateTicket", {}, id="by a name in humps"),
        case("find_and_replace", {}, id="by the second of two verbs"),
        case("str_replace_editor", {"command": "create", "path": "a"}, id="by what it is told"),
        case("computer", {"action": "left_click"}, id="by a click"),
        case("tool_7", {"path": "a", "content": "b"}, id="by content to write"),
        case("run", {"query": "UPDATE t SET a = 1"}, id="by a statement"),
        case("python", {"code": "df.to_csv('a.csv')"}, id="by code that writes"),
        case(*shell("sed -i s/a/b/ x.py"), id="an edit in place"),
        case(*shell("cd /src && git commit -m x"), id="after a cd"),
        case(*shell("make && cp a b"), id="after another command"),
        case(*shell("echo x > a.txt"), id="into a file"),
        case(*shell("cat > a.py <<'PY'\nx = 1\nPY"), id="a here-document"),
        case("shell", {"command": ["bash", "-lc", "rm a"]}, id="in a list of words"),
        case(*shell("sudo apt-get -y install jq"), id="an installation"),
        case(*shell("cd src"), id="a cd that stands alone"),
        case(*shell("edit 1:3\nx = 1\nend_of_edit"), id="an editor's command"),
    ],
)
def test_changes_something(name, arguments):
    assert changes_something(name, json.dumps(arguments, separators=(",", ":")))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        case("Read", {"file_path": "a"}, id="by name"),
        case("get_updates", {}, id="a noun that looks like a verb"),
        case("list_commits", {}, id="another"),
        case("search_books", {"query": "create a list"}, id="words in a question"),
        case("get_credit_score", {}, id="a verb inside a word"),
        case("str_replace_editor", {"command": "view", "path": "a"}, id="by what it is told"),
        case("TodoWrite", {"todos": []}, id="notes to oneself"),
        case("translate", {"source": "en", "text": "a"}, id="the name of an argument"),
        case(*shell("cd /src && grep -rn x ."), id="a cd before another command"),
        case(*shell("grep -rn create src"), id="a command's name that is looked for"),
        case(*shell("find / -name x 2>/dev/null"), id="errors thrown away"),
        case(*shell("grep x a.py > /dev/null"), id="output thrown away"),
        case("run_sql", {"query": "SELECT a FROM t WHERE a > 5"}, id="greater than"),
        case("think", {"thought": "I should edit it."}, id="a thought"),
    ],
)
def test_changes_nothing(name, arguments):
    assert not changes_something(name, json.dumps(arguments, separators=(",", ":")))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("create_ticket", True), ("insert", True), ("update_ticket", False), ("list_created", False)],
)
def test_what_adds_something_is_told_by_its_name(name, expected):
    assert adds_something(name, "{}") is expected
