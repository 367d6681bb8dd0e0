"""Tales of agents that look for something: on the web, in documents, in databases."""

from __future__ import annotations

import json
from random import Random

from bench.loops.form import Tool
from bench.loops.tales.coding import repeat
from bench.loops.tales.noise import Noise
from bench.loops.tales.phrases import retry
from bench.loops.tales.tale import Case, Deed, Round, Tale, cases_of

SUBJECTS = (
    ("heat pumps in old stone houses", "flow temperature", "Nordhavn field study"),
    ("the harbour dues of small ports", "tariff per metre", "Port of Velsund"),
    ("mycelium as packaging", "compressive strength", "Fungal Forms Ltd"),
    ("night trains across the Alps", "track access charges", "Brenner base line"),
    ("sea grass as a carbon store", "burial rate", "Bay of Kerteminde"),
    ("ceramic water filters", "flow rate after a year", "Tamale trial"),
    ("the price of refurbished laptops", "median resale value", "Relaptop index"),
    ("acoustic bat monitoring", "false positive rate", "Wye Valley survey"),
)
OUTLETS = ("review", "report", "journal", "archive", "notes", "gazette", "bulletin", "digest")
AUTHORS = (
    "Abebe", "Bianchi", "Castro", "Dubois", "Eriksen", "Fofana", "Gruber", "Hosseini", "Ito",
    "Jansen", "Kowalska", "Lindqvist", "Mbeki", "Novotny", "Okafor", "Petrov", "Quispe", "Rahman",
    "Schmid", "Tanaka", "Ueda", "Vargas", "Wójcik", "Yilmaz",
)  # fmt: skip
REGIONS = (
    "Galicia", "Jutland", "Savoy", "Thrace", "Lapland", "Umbria", "Wallonia", "Silesia", "Epirus",
    "Bohemia", "Alentejo", "Connacht", "Friesland", "Istria", "Masuria", "Navarre",
)  # fmt: skip
REMARKS = (
    "mostly in villages", "some of them at sea", "before the war", "all measured twice",
    "with a poor sample", "against earlier claims", "paid by the makers", "over nine winters",
    "without a control group", "as the council had asked", "but only for new buildings",
    "where records survive", "after the reform", "in private hands", "at half the cost",
)  # fmt: skip
PERSONA = "You are a careful research assistant. Cite your sources, and do not guess."
WEB = (
    Tool("web_search", "Search the web.", ("query", "page")),
    Tool("fetch_page", "Fetch a page as text.", ("url",)),
)


def _hits(rng: Random, subject: str, count: int, noise: Noise) -> list[dict[str, str]]:
    found = []
    for _ in range(count):
        outlet, number = rng.choice(OUTLETS), rng.randrange(100, 9999)
        words = " ".join(rng.sample(subject.split(), 2))
        who, where = rng.choice(AUTHORS), rng.choice(REGIONS)
        found.append(
            {
                "title": f"{words.capitalize()}: what {who} saw in {where}",
                "url": f"https://{outlet}.example.org/{who.lower()}-{where.lower()}-{noise.hex(6)}",
                "content": f"{who} counts {number} cases about {subject} in {where}, "
                f"{rng.choice(REMARKS)}; {rng.choice(REMARKS)}.",
            }
        )
    return found


def _answered(hits: list[dict[str, str]], noise: Noise) -> str:
    took = round(noise.rng.uniform(0.3, 2.8), 2)
    return json.dumps({"results": hits, "response_time": took, "request_id": noise.uuid()})


def _rephrased(subject: str, detail: str, number: int) -> str:
    """Return the same question in other words, never twice quite the same."""
    forms = (
        "{s} {d}", "{d} {s}", "{d} for {s}", "what is the {d} of {s}", "{s} exact {d}",
        '"{d}" {s}', "{s} {d} data", "{s} {d} figures", "{s} {d} pdf", "latest {d} {s}",
        "{d} statistics {s}", "how high is the {d} of {s}", "{s} official {d}", "{s} {d} table",
        "numbers on the {d} of {s}", "{s}: {d} source",
    )  # fmt: skip
    years = ("", " 2026", " 2025", " study", " site:org")
    return forms[number % len(forms)].format(s=subject, d=detail) + years[number // 16 % 5]


def _first_steps(rng: Random, subject: str, noise: Noise, count: int) -> list[Round]:
    rounds = []
    for number in range(count):
        aspect = ("overview", "history", "cost", "regulation", "criticism", "makers")[number % 6]
        if number % 2:
            url = f"https://{rng.choice(OUTLETS)}.example.org/{noise.hex(6)}"
            text = " ".join(
                f"{rng.choice(OUTLETS).capitalize()} {rng.randrange(1990, 2026)} on the {aspect} "
                f"of {subject} by {rng.choice(AUTHORS)}: {rng.choice(REMARKS)}, "
                f"{rng.randrange(3, 97)} of {rng.randrange(100, 400)}."
                for _ in range(4)
            )
            deed = Deed("fetch_page", {"url": url}, text, seconds=1.4)
        else:
            query = f"{subject} {aspect}"
            result = _answered(_hits(rng, subject, 3, noise), noise)
            deed = Deed("web_search", {"query": query, "page": 1}, result, seconds=1.1)
        rounds.append(Round(f"Reading about the {aspect}.", [deed], note=f"Read: {aspect}."))
    return rounds


def same_hits(rng: Random) -> Tale:
    """The question is put in other words, and the hits are always the same, or none."""
    subject, detail, place = rng.choice(SUBJECTS)
    noise = Noise(rng)
    hits = _hits(rng, subject, rng.choice((0, 3, 4)), noise)

    def make(n: int) -> Round:
        args = {"query": _rephrased(subject, detail, n), "page": 1}
        deed = Deed("web_search", args, _answered(hits, noise), seconds=1.2)
        return Round(retry(rng), [deed], note=f"No {detail} found yet.")

    return repeat(
        f"Write a page about {subject}; it must give the {detail} at {place}.",
        _first_steps(rng, subject, noise, rng.randrange(2, 9)),
        make,
        rng,
        tools=WEB,
        persona=PERSONA,
    )


def new_hits(rng: Random) -> Tale:
    """The question is put in other words, and each time there is something new."""
    subject, detail, place = rng.choice(SUBJECTS)
    noise = Noise(rng)
    rounds = _first_steps(rng, subject, noise, 3)
    for number in range(rng.randrange(16, 26)):
        args = {"query": _rephrased(subject, detail, number), "page": 1}
        hits = _hits(rng, subject, rng.randrange(1, 4), noise)
        deed = Deed("web_search", args, _answered(hits, noise), seconds=1.2)
        note = hits[0]["title"]
        rounds.append(Round(retry(rng), [deed], note=f"Found: {note}."))
    task = f"Collect sources on the {detail} of {subject}, at {place} and elsewhere."
    return Tale(task, [*rounds, Round("Here is the list of sources.")], tools=WEB, persona=PERSONA)


def paging(rng: Random) -> Tale:
    """One query, page after page."""
    subject, detail, _ = rng.choice(SUBJECTS)
    noise = Noise(rng)
    rounds = []
    for page in range(1, rng.randrange(18, 28)):
        args = {"query": f"{subject} {detail}", "page": page}
        deed = Deed("web_search", args, _answered(_hits(rng, subject, 3, noise), noise))
        rounds.append(Round("Next page." if page > 1 else "", [deed], note=f"Read page {page}."))
    return Tale(
        f"How many sources on {subject} are there? Go through all pages.",
        [*rounds, Round("That was the last page.")],
        tools=WEB,
        persona=PERSONA,
    )


TABLES = ("bookings", "vessels", "berths", "invoices", "pilots", "cargo", "customers", "delays")
COLUMNS = ("status", "port_id", "tonnage", "due_on", "agent", "currency", "region", "paid_at")
SQL = (
    Tool("sql_db_list_tables", "List the tables."),
    Tool("sql_db_schema", "Describe tables.", ("table_names",)),
    Tool("sql_db_query", "Run a query.", ("query",)),
)
ANALYST = "You answer questions about a database. Look at the schema before you query."


def _schema_steps(rng: Random) -> list[Round]:
    rounds = [Round("Which tables are there?",
                    [Deed("sql_db_list_tables", {}, ", ".join(TABLES))])]  # fmt: skip
    for table in rng.sample(TABLES, rng.randrange(2, 5)):
        columns = ",\n  ".join(f"{name} TEXT" for name in rng.sample(COLUMNS, 5))
        text = f"CREATE TABLE {table} (\n  id INTEGER,\n  {columns}\n)"
        rounds.append(
            Round(
                "",
                [Deed("sql_db_schema", {"table_names": table}, text)],
                note=f"Know the columns of {table}.",
            )
        )
    return rounds


def no_rows(rng: Random) -> Tale:
    """Queries that differ in how they spell one condition, and never give a row."""
    table, column = rng.choice(TABLES), rng.choice(COLUMNS)
    value = rng.choice(("overdue", "northern", "unpaid", "cancelled"))
    conditions = (
        "{c} = '{v}'", "LOWER({c}) = '{v}'", "{c} LIKE '%{v}%'", "TRIM({c}) = '{v}'",
        "{c} ILIKE '{v}'", "UPPER({c}) = UPPER('{v}')", "{c} IN ('{v}')", "{c} LIKE '{v}%'",
        "{c} ~* '{v}'", "COALESCE({c}, '') = '{v}'", "{c}::text = '{v}'", "'{v}' = {c}",
    )  # fmt: skip
    selects = ("COUNT(*)", "*", "id", "DISTINCT id", "id, {c}")
    empty = rng.choice(("[]", "(0 rows)", "Query returned no results."))

    def make(n: int) -> Round:
        select = selects[n // len(conditions) % 5].format(c=column)
        where = conditions[n % len(conditions)].format(c=column, v=value)
        query = f"SELECT {select} FROM {table} WHERE {where} LIMIT {10 + n % 3}"
        said = ("Perhaps the spelling differs.", "Let me write it differently.", "")[n % 3]
        return Round(said, [Deed("sql_db_query", {"query": query}, empty)], note="No rows.")

    return repeat(
        f"How many {table} are {value}?", _schema_steps(rng), make, rng, tools=SQL, persona=ANALYST
    )


def new_rows(rng: Random) -> Tale:
    rounds = _schema_steps(rng)
    for number in range(rng.randrange(16, 24)):
        table = TABLES[number % len(TABLES)]
        column = COLUMNS[number // 3 % len(COLUMNS)]
        query = f"SELECT {column}, COUNT(*) FROM {table} GROUP BY {column}"
        rows = [(rng.choice(("open", "shut", "late", "void")), rng.randrange(4000))
                for _ in range(rng.randrange(0, 4))]  # fmt: skip
        rounds.append(
            Round(
                "Next count.",
                [Deed("sql_db_query", {"query": query}, str(rows))],
                note=f"{table} by {column}: {rows}.",
            )
        )
    return Tale(
        "Profile the database: counts by each column that looks like a category.",
        [*rounds, Round("The profile is complete.")],
        tools=SQL,
        persona=ANALYST,
    )


NOTEBOOK = (Tool("run_cell", "Run a cell of the notebook.", ("code",)),)


def same_key_error(rng: Random) -> Tale:
    """Cells that differ a little and end in the same error."""
    noise = Noise(rng)
    column = rng.choice(("depth_m", "sold_at", "weight_kg", "lot_no"))
    ways = (
        "df['{c}'].mean()", "df.{c}.mean()", "df[['{c}']].describe()", "df.loc[:, '{c}'].mean()",
        "df.groupby('region')['{c}'].mean()", "df['{c}'].dropna().mean()",
        "df.agg({{'{c}': 'mean'}})",
        "df['{c}'].astype(float).mean()", "np.mean(df['{c}'])", "df.filter(['{c}'])['{c}'].mean()",
    )  # fmt: skip

    def make(n: int) -> Round:
        code = ways[n % len(ways)].format(c=column) + "\n" * (n // len(ways))
        error = (
            f"KeyError           Traceback (most recent call last)\nCell In[{n + 4}], line 1\n"
            f"File frame.py:{3800}, in Index.get_loc(self, key) at {noise.address()}\n"
            f"KeyError: '{column}'"
        )
        said = ("Another way to reach the column.", "That should work.", "")[n % 3]
        return Round(said, [Deed("run_cell", {"code": code}, error, failed=True)])

    return repeat(
        f"What is the mean of {column} in lots.csv?",
        _cells(rng, rng.randrange(2, 8)),
        make,
        rng,
        tools=NOTEBOOK,
        persona="You analyse data in a notebook.",
    )


def _cells(rng: Random, count: int) -> list[Round]:
    rounds = []
    names = ("region", "vendor", "month", "grade", "route", "crew", "silo", "batch", "season")
    for number in range(count):
        name, other = rng.sample(names, 2)
        code, result = (
            (f"df = pd.read_csv('{name}.csv'); df.shape", f"({rng.randrange(90, 9000)}, 7)"),
            (f"df['{name}'].nunique()", str(rng.randrange(3, 90))),
            (f"pd.crosstab(df['{name}'], df['{other}'])", f"{name} {rng.sample(range(99), 4)}"),
            (f"df = df[df['{name}'] != '{other}']", ""),
            (f"df['{name}'] = df['{name}'].str.strip()", ""),
            (f"df.sort_values('{name}').head(2)", f"{name} {rng.sample(range(999), 3)}"),
        )[number % 6]
        rounds.append(
            Round(
                f"Step {number + 1}.",
                [Deed("run_cell", {"code": code}, result)],
                note=f"Cell {number + 1}: {code}",
            )
        )
    return rounds


def many_cells(rng: Random) -> Tale:
    """Cells that each do something else, many of them without output, some with an error."""
    rounds = _cells(rng, rng.randrange(20, 34))
    for place in (5, 6, 7):
        error = "KeyError: 'lot'"
        code = ("df['lot']", "df.lot", "df.columns.get_loc('lot')")[place - 5]
        rounds.insert(place, Round("", [Deed("run_cell", {"code": code}, error, failed=True)]))
    return Tale(
        "Clean the files and tell what is in them.",
        [*rounds, Round("All clean now.")],
        tools=NOTEBOOK,
        persona="You analyse data in a notebook.",
    )


def cases() -> list[Case]:
    """Return all cases of this module."""
    loop = {"is_loop": True}
    return [
        *cases_of("research", "same-hits", same_hits,
                  "langgraph crewai google-adk mcp-desktop dspy openai-agents", **loop,
                  difficulty="hard"),
        *cases_of("research", "new-hits", new_hits,
                  "langgraph crewai google-adk mcp-desktop dspy pydantic-ai", difficulty="hard"),
        *cases_of("research", "paging", paging, "langgraph-anthropic openai-agents mastra"),
        *cases_of("database", "no-rows", no_rows, "langgraph pydantic-ai mastra", **loop,
                  difficulty="hard"),
        *cases_of("database", "new-rows", new_rows, "langgraph mcp-desktop crewai"),
        *cases_of("notebook", "key-error", same_key_error,
                  "smolagents langgraph-anthropic openai-agents", **loop),
        *cases_of("notebook", "cells", many_cells, "smolagents langgraph pydantic-ai"),
    ]  # fmt: skip
