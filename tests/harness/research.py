"""Agents that search, fetch and reckon: research, questions over documents, data analysis."""

from tests.detect.runs import Use, together
from tests.harness.steps import case, each, prose, source, word


def search(number, result=None):
    found = "\n".join(f"[{n}] {prose(number + n)} https://{word(n)}.example" for n in range(5))
    return Use("search", {"query": prose(number, 4)}, result if result is not None else found)


def fetch(number, result=None):
    return Use(
        "fetch", {"url": f"https://{word(number)}.example/{number}"}, result or prose(number, 300)
    )


def sql(query, result):
    return Use("run_sql", {"query": query}, result)


def cell(code, result):
    return Use("python_repl", {"code": code}, result)


def traceback(error):
    return f'Traceback (most recent call last):\n  File "<stdin>", line 1, in <module>\n{error}'


QUIET = [
    case(each(search, fetch, times=15), id="search and read"),
    case(
        each(lambda n: fetch(n, f"How to fix errors: {prose(n)} cannot {prose(n + 1)}"), times=20),
        id="short pages about errors",
    ),
    case(
        each(lambda n: fetch(n, f"# Error {n} explained\n" + prose(n, 300)), times=20),
        id="long pages about errors",
    ),
    case(
        each(lambda n: search(n, '{"results": []}') if n % 3 else search(n), times=18),
        id="searches of which two in three find nothing",
    ),
    case(
        each(lambda n: sql(f"SELECT count(*) FROM {word(n)} WHERE price > 10", "0"), times=15),
        id="counts that are all nought",
    ),
    case(
        each(
            lambda n: cell(f"df['{word(n)}'].{prose(n, 1)}()", traceback(f"KeyError: '{word(n)}'")),
            lambda n: cell(f"print({n})", source(n, 4)),
            times=12,
        ),
        id="a notebook in which every other cell fails otherwise",
    ),
    case(
        each(lambda n: together(fetch(n), fetch(n + 9)), times=15),
        id="two pages a turn",
    ),
    case(
        each(
            lambda n: sql(f"INSERT INTO t VALUES ({n}, '{word(n)}')", "0 rows returned"), times=25
        ),
        id="rows inserted one by one",
    ),
    case(
        each(lambda n: cell(f"step({n})", f"loss {1 / (n + 1):.4f}"), times=25),
        id="steps of a training",
    ),
]

HONEST = [
    case(
        each(lambda n: fetch(n, f"HTTP 404 Not Found: /{n}"), lambda n: search(n), times=10),
        id="dead links between searches that find something",
    ),
    case(
        each(
            lambda n: cell(source(n), traceback(f"{word(n).title()}Error: {prose(n, 5)}")), times=20
        ),
        id="twenty cells, each with another error",
    ),
]

LOOPS = [
    case([fetch(1, "HTTP 404 Not Found")] * 12, 6, id="the same dead link"),
    case([search(1)] * 12, 6, id="the same search"),
    case([search(1), fetch(1)] * 10, 8, id="the same search and the same page"),
    case(
        each(lambda n: search(n, "No results found."), times=30),
        21,
        id="searches that find nothing",
    ),
    case(
        each(lambda n: search(n, '{"results": [], "total": 0}'), times=30),
        21,
        id="searches that find nothing, as JSON",
    ),
    case(
        each(lambda n: sql(prose(n, 8), 'ERROR: syntax error at or near "a"'), times=20),
        9,
        id="queries that are no SQL",
    ),
    case(
        each(
            lambda n: cell(
                source(n, 2), traceback("ModuleNotFoundError: No module named 'pandas'")
            ),
            times=20,
        ),
        9,
        id="a module that is not there",
    ),
    case(
        each(
            lambda n: Use(
                "wikipedia_lookup",
                {"q": prose(n)},
                "wikipedia_lookup is not a valid tool, try one of [search].",
            ),
            times=12,
        ),
        7,
        id="a tool that is not there, in LangChain's words",
    ),
    case(
        each(
            lambda n: Use(
                "Calc",
                {"q": n},
                "Action 'Calc' don't exist, these are the only available Actions: search",
            ),
            times=12,
        ),
        7,
        id="a tool that is not there, in CrewAI's words",
    ),
    case(
        each(
            lambda n: Use("calc", {"q": prose(n)}, "Model tried to call unavailable tool 'calc'."),
            times=12,
        ),
        7,
        id="a tool that is not there, in another's words",
    ),
    case(
        each(lambda n: sql(prose(n, 9), "Fehler: Tabelle nicht gefunden"), times=20),
        9,
        id="an error in German",
    ),
    case(each(lambda n: search(n, "错误：服务不可用"), times=20), 9, id="an error in Chinese"),
]
