"""Agents that look things up: searches, documents, databases, notebooks."""

from __future__ import annotations

import json
from random import Random

from bench.loops.scenes.cast import Plot
from bench.loops.scenes.remark import Voice
from bench.loops.scenes.run import Act, Run, Turn
from bench.loops.scenes.scene import end, more
from bench.loops.scenes.world import CITIES, NOUNS, PROJECTS, person

_SYSTEM = "You are a research assistant. Search before you answer, and cite what you found."
_ANALYST = "You are a data analyst. Answer with figures from the database only."
_TURNS = (
    "{a} {b} {c}",
    "{c} of {b} in {a}",
    "what is the {c} of {b} {a}",
    "{b} {a} {c} statistics",
    "{a} {c} official {b}",
    '"{b}" {c} {a}',
    "{c} {a} {b} 2026",
    "latest {c} for {b} in {a}",
    "{a}: {b}, {c}",
    "how large is the {c} of {b} ({a})",
    "{b} in {a} – {c} report",
    "find {c} {b} near {a}",
    "{a} city {b} {c} data",
    "{c}s of {b} {a} pdf",
    "source for {c} of {a} {b}",
)


def _host(title: str) -> str:
    return title.split()[0].strip(":").lower().replace("ö", "o")


def _hits(rng: Random, about: list[str], scores: bool) -> str:
    hits = [
        {
            "title": title,
            "url": f"https://{_host(title)}.example.org/{at}",
            **({"score": round(0.9 - 0.1 * at + rng.uniform(0, 0.009), 4)} if scores else {}),
        }
        for at, title in enumerate(about)
    ]
    more_ = {"response_time": round(rng.uniform(0.3, 2), 2)} if scores else {}
    return json.dumps({"results": hits, **more_}, ensure_ascii=False)


def search(rng: Random) -> list[Run]:
    """Searches in other words with the same hits; or with hits of their own."""
    city, topic = rng.choice(CITIES), rng.choice(("ferries", "libraries", "tram lines", "markets"))
    figure, scores = (
        rng.choice(("number of visitors", "budget", "number of staff")),
        rng.random() < 0.5,
    )
    wanted = f"What was the {figure} of {topic} in {city} last year?"
    known = [
        f"{city} travel guide",
        f"Ten {topic} to see",
        f"History of {city}",
        "Forum: any tips?",
    ]
    voice = Voice(rng)
    loop = [
        Turn(
            voice("search", f"the {figure}"),
            (
                Act(
                    "web_search",
                    {"query": words.format(a=city, b=topic, c=figure)},
                    _hits(rng, known, scores),
                ),
            ),
        )
        for words in [*rng.sample(_TURNS, 15), *rng.choices(_TURNS, k=more(rng))]
    ]
    runs = [Run(wanted, loop, 2, _SYSTEM, "hard")]
    voice = Voice(rng)
    honest = []
    for other in rng.sample(CITIES, 10):
        query = rng.choice(_TURNS).format(a=other, b=topic, c=figure)
        found = [f"{other}: {topic} in figures", f"{other} travel guide", f"Ten {topic} to see"]
        call = Act("web_search", {"query": query}, _hits(rng, found, scores))
        honest.append(Turn(voice("search", f"{topic} in {other}"), (call,)))
        page = f"In 2026 the {figure} was {rng.randint(1000, 99999):,}."
        url = f"https://{_host(other)}.example.org/0"
        honest.append(
            Turn(voice("read", f"the page on {other}"), (Act("fetch", {"url": url}, page),))
        )
    honest.append(end(rng, "the table of ten cities is complete"))
    compare = f"Compare the {figure} of {topic} in ten European cities."
    return [*runs, Run(compare, honest, None, _SYSTEM)]


def nothing_found(rng: Random) -> list[Run]:
    """Nothing is found, however it is asked; or little is found on many different questions."""
    project, noun = rng.choice(PROJECTS), rng.choice(NOUNS)
    wanted = f"Which version of {project} dropped support for {noun} files?"
    empty = "No relevant documents found."
    words = (
        project,
        noun,
        "files",
        "support",
        "version",
        "dropped",
        "removed",
        "deprecated",
        "changelog",
        "breaking",
        "release",
    )
    voice = Voice(rng)
    loop = [
        Turn(
            voice("search", "the change"),
            (
                Act(
                    "search_documents",
                    {"query": " ".join(rng.sample(words, rng.randint(2, 4)))},
                    empty,
                ),
            ),
        )
        for _ in range(more(rng) + 4)
    ]
    runs = [Run(wanted, loop, 4, _SYSTEM, "hard")]
    voice = Voice(rng)
    honest = []
    for at, other in enumerate(NOUNS):
        text = f"{project} {at}.0: {other} files are no longer read (page {30 + at})."
        shown = text if at % 3 else empty
        call = Act("search_documents", {"query": f"{project} {other} files removed"}, shown)
        honest.append(Turn(voice("search", f"{other} files"), (call,)))
    honest.append(end(rng, "for a third of the formats the notes say nothing"))
    each = f"For each of the eleven formats of {project}: when was support dropped?"
    return [*runs, Run(each, honest, None, _SYSTEM, "hard")]


def column(rng: Random) -> list[Run]:
    """Queries that fail for the same column; or for a new reason each, until they work."""
    table, city = rng.choice(NOUNS) + "s", rng.choice(CITIES)
    wanted = f"How many {table} did we have per month in {city}?"
    error = f'ERROR: column "city" of relation "{table}" does not exist\nLINE 1: ...'
    shapes = (
        "SELECT month, count(*) FROM {t} WHERE city = '{c}' GROUP BY month",
        "SELECT date_trunc('month', at), count(*) FROM {t} WHERE city = '{c}' GROUP BY 1",
        "select to_char(at, 'YYYY-MM'), count(id) from {t} where lower(city) = lower('{c}')",
        "SELECT count(*), city FROM {t} GROUP BY city HAVING city = '{c}'",
        "WITH x AS (SELECT * FROM {t} WHERE city ILIKE '{c}%') SELECT count(*) FROM x",
        "SELECT count(1) FROM {t} AS r WHERE r.city = '{c}' LIMIT {n}",
    )
    voice = Voice(rng)
    loop = []
    for _ in range(more(rng) + 2):
        query = rng.choice(shapes).format(t=table, c=city, n=rng.randint(1, 500))
        loop.append(
            Turn(voice("retry", "the query"), (Act("run_sql", {"query": query}, error, 1),))
        )
    runs = [Run(wanted, loop, 2, _ANALYST)]
    voice = Voice(rng)
    honest = []
    for at, noun in enumerate(NOUNS):
        wrong = f'ERROR: column "{noun}_at" does not exist\nHINT: Perhaps you meant "{noun}_on".'
        query = f"SELECT max({noun}_at) FROM {noun}s"
        if at % 2:
            call = Act("run_sql", {"query": query}, wrong, 1)
            honest.append(Turn(voice("run", "the query"), (call,)))
        shown = f"max\n2027-01-{at + 1:02}\n(1 row)"
        right = Act("run_sql", {"query": query.replace("_at", "_on")}, shown)
        honest.append(Turn(voice("run", f"it for {noun}s"), (right,)))
    honest.append(end(rng, "the dates of the last rows are in the list"))
    return [*runs, Run("When was each table last written to?", honest, None, _ANALYST)]


def rows(rng: Random) -> list[Run]:
    """The same rows are asked for again; or page after page."""
    table, size = rng.choice(NOUNS) + "s", 5
    wanted = f"Are there {table} without an owner? List all of them."

    def page(offset: int, seen: int) -> Act:
        query = f"SELECT id, owner FROM {table} ORDER BY id LIMIT {size} OFFSET {offset}"
        found = [f"{1000 + 7 * (seen + at)} | {'' if at % 4 else 'n/a'}" for at in range(5)]
        footer = f"({size} rows, {rng.uniform(3, 90):.1f} ms)"
        return Act("run_sql", {"query": query}, "\n".join(["id | owner", *found, footer]))

    voice = Voice(rng)
    loop = [Turn(voice("read", "the next rows"), (page(0, 0),)) for _ in range(more(rng) + 1)]
    runs = [Run(wanted, loop, 1, _ANALYST)]
    voice = Voice(rng)
    pages = rng.randint(15, 40)
    honest = [
        Turn(voice("read", "the next rows"), (page(at * size, at * size),)) for at in range(pages)
    ]
    honest.append(end(rng, "all rows are listed"))
    return [*runs, Run(wanted, honest, None, _ANALYST)]


def notebook(rng: Random) -> list[Run]:
    """Cells are run again from the top with the same figure; or a parameter is tuned."""
    names = rng.sample(NOUNS, 3)
    wanted = f"Train a model that predicts {names[0]}s. It should reach 0.90 on the test set."
    cells = [
        (f"df = pd.read_csv('{names[0]}.csv')\ndf.shape", "(4120, 17)"),
        ("X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)", ""),
        (
            "model = LogisticRegression(C=1.0).fit(X_train, y_train)\nmodel.score(X_test, y_test)",
            "0.8127",
        ),
    ]

    def cell(voice: Voice, code: str, shown: str) -> Turn:
        text = f"[{rng.randint(1, 400)}] {shown} (executed in {rng.uniform(0.1, 4):.2f} s)"
        return Turn(voice("run", "the cell"), (Act("run_cell", {"code": code}, text),))

    voice = Voice(rng)
    loop = [cell(voice, *cells[at % 3]) for at in range(more(rng) + 6)]
    runs = [Run(wanted, loop, 3, _ANALYST, "medium")]
    voice = Voice(rng)
    honest = [cell(voice, *one) for one in cells[:2]]
    score = 0.8127
    for at in range(rng.randint(12, 24)):
        code = f"fit(GradientBoosting(depth={at // 3 + 2}, rate={0.3 / (at + 1):.3f}))"
        score += rng.uniform(-0.004, 0.012)
        honest.append(cell(voice, code, f"{score:.4f}"))
    honest.append(end(rng, "the best setting is in the last cells"))
    return [*runs, Run(wanted, honest, None, _ANALYST)]


def page(rng: Random) -> list[Run]:
    """One document is fetched over and over for an answer it lacks; or one link leads on."""
    who = person(rng)
    url = f"https://archive.example.org/{rng.choice(NOUNS)}/{rng.randint(100, 999)}"
    wanted = f"In which year did {who} publish the first catalogue? Start from {url}."
    text = f"{who} was a collector. The page lists letters and photographs. See also: index."
    voice = Voice(rng)
    loop = [
        Turn(
            voice("read", "the page"),
            (Act("fetch", {"url": url + rng.choice(("", "#top", "?view=full", "/"))}, text),),
        )
        for _ in range(more(rng) + 2)
    ]
    runs = [Run(wanted, loop, 2, _SYSTEM, "medium")]
    voice = Voice(rng)
    honest = []
    for at in range(rng.randint(14, 22)):
        shown = (
            f"{text} Letter {at + 1}, of {1840 + at}: I have no catalogue yet. Next: {url}/{at + 1}"
        )
        where = f"{url}/{at}" if at else url
        honest.append(
            Turn(voice("read", f"letter {at + 1}"), (Act("fetch", {"url": where}, shown),))
        )
    honest.append(end(rng, "the last letter names the year of the catalogue"))
    return [*runs, Run(wanted, honest, None, _SYSTEM)]


PLOTS = (
    Plot("search", search, "langgraph openai_agents/kept adk crewai vercel_ai"),
    Plot("nothing_found", nothing_found, "langgraph/trimmed adk n8n openai_agents"),
    Plot("column", column, "vercel_ai langgraph crewai adk"),
    Plot("rows", rows, "openai_agents mcp langgraph/trimmed adk"),
    Plot("notebook", notebook, "openai_agents/kept langgraph vercel_ai/elided"),
    Plot("page", page, "adk mcp crewai"),
)
