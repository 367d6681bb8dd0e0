"""Data work: queries, pages, files to clean, models to run."""

from __future__ import annotations

from bench.loops.field.cast import edit, read, sh, tool, write
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import CITIES, FIRMS, HALF, NOUNS, Voice, do, quiet
from bench.loops.field.wire import Json


@HALF.template("sql", "langgraph anthropic-mcp crewai", "tables mended", difficulty="medium")
def column_that_is_not_there(run: Run, way: str) -> None:
    """A query names a column that the table lacks; the schema was shown, and is shown again."""
    chat = run.chat()
    tables = run.some(NOUNS, 8)
    main, wrong = tables[0] + "s", run.pick("region", "channel", "country_code", "net_amount")
    quarter = f"Q{run.num(1, 4)}"
    if way == "tables":
        chat.user("Profile each table of the warehouse: rows, span of dates, share of nulls.")
    else:
        chat.user(
            f"What were the {main} per {wrong.replace('_', ' ')} in {quarter}? Use the SQL tool."
        )
    schema = "table_name\n" + "\n".join(f"{name}s" for name in tables)
    chat.act("I'll see which tables there are.", tool("list_tables", {}, schema))
    columns = {
        name: ["id", "created_at", *run.some(NOUNS, run.num(3, 5)), "amount", "status"]
        for name in tables
    }

    def describe(name: str) -> str:
        return "\n".join(f"{c:14} {'numeric' if c == 'amount' else 'text'}" for c in columns[name])

    for name in tables[: run.num(2, 4)]:
        quiet(chat, tool("describe_table", {"table": f"{name}s"}, describe(name)))
    quiet(
        chat,
        tool("query", {"sql": f"SELECT count(*) FROM {main}"}, f"count\n{run.num(900, 99999)}"),
    )
    say = Voice(
        run,
        "<^query>[Let me|I'll] [correct|fix|adjust] the [query|SQL].",
        "<^query>[The|That] column [was not found|does not exist]. [Quoting|Maybe quoting] it "
        "[helps|works].",
        "<describe>[Let me|I'll] [look at|check] the [schema|columns] [again|once more].",
        "<t\\.>[Let me|I'll] [try|use] an alias [instead|here].",
        "<^query>[Now|OK], [this|the query] [should work|is right].",
        '<public|">[Perhaps|Maybe] the [schema|name] [must be|needs to be] [qualified|upper case].',
        first="[Now|Let me write] the query.",
    )
    if way == "tables":
        for name in tables:
            sql = f"SELECT count(*), min(created_at), max(created_at) FROM {name}s"
            row = f"{run.num(50, 900000)} | 2024-0{run.num(1, 9)}-11 | {run.stamp('%Y-%m-%d')}"
            if run.chance.random() < 0.3:
                bad = f'ERROR:  column "created_at" does not exist\nLINE 1: SELECT count(*), {name}'
                quiet(chat, tool("query", {"sql": sql}, bad, 1))
                do(chat, say, tool("describe_table", {"table": f"{name}s"}, describe(name)))
                sql = sql.replace("created_at", "inserted_at")
            chat.act(f"Now {name}s.", tool("query", {"sql": sql}, f"count | min | max\n{row}"))
            column = run.chance.choice(columns[name])
            sql = f"SELECT avg(({column} IS NULL)::int) FROM {name}s"
            quiet(chat, tool("query", {"sql": sql}, f"avg\n{run.dec(0, 0.6, 4)}"))
        chat.say("The profile of all tables is above.")
        return

    def error(sql: str) -> str:
        place = sql.find(wrong) + 9
        return f'ERROR:  column "{wrong}" does not exist\nLINE 1: {sql[:70]}\n{" " * place}^'

    forms = (
        f"SELECT {wrong}, count(*) FROM {main} GROUP BY {wrong}",
        f'SELECT "{wrong}", count(*) FROM {main} GROUP BY 1',
        f"SELECT t.{wrong}, count(*) AS n FROM {main} t GROUP BY t.{wrong} ORDER BY n DESC",
        f"SELECT {wrong}, count(id) FROM public.{main} WHERE status = 'open' GROUP BY {wrong}",
        f"SELECT {wrong}, sum(amount) FROM {main} GROUP BY {wrong} LIMIT 100",
        f"WITH x AS (SELECT {wrong} FROM {main}) SELECT {wrong}, count(*) FROM x GROUP BY 1",
    )
    for number in range(run.num(18, 38) if way == LOOP else 3):
        if number == 2:
            run.begin()
        if number and run.chance.random() < 0.25:
            act = tool("describe_table", {"table": main}, describe(tables[0]))
        else:
            sql = run.chance.choice(forms)
            act = tool("query", {"sql": sql}, error(sql), 1)
        do(chat, say, act)
    if way == LOOP:
        return
    key = columns[tables[1]][3]
    cities = run.some(CITIES, run.num(8, 12))
    listed = "\n".join(cities)
    chat.act(
        f"There is no such column. {key} of {tables[1]}s may be what is meant.",
        tool("query", {"sql": f"SELECT DISTINCT {key} FROM {tables[1]}s"}, f"{key}\n{listed}"),
    )
    for city in cities:
        sql = (
            f"SELECT count(*), sum(m.amount) FROM {main} m JOIN {tables[1]}s j ON j.id = "
            f"m.{tables[1]}_id WHERE j.{key} = '{city}'"
        )
        row = f"count | sum\n{run.num(4, 900)} | {run.dec(100, 90000)}"
        chat.act(f"Next: {city}." * run.num(0, 1), tool("query", {"sql": sql}, row))
    chat.say("The table is complete.")


@HALF.template("no-rows", "langgraph gemini-api anthropic-mcp", "days found")
def found_nothing_at_all(run: Run, way: str) -> None:
    """What is looked for is not in the store; each query for it has no rows."""
    chat = run.chat()
    firm = run.pick(*FIRMS)
    key, index = firm.split()[0], run.pick("orders", "contracts", "shipments")
    if way == "days":
        chat.user(f"Count the {index} of {firm} for each of the last thirty days, day by day.")
    else:
        chat.user(f"Find the {index} of {firm} from last month and add up what they owe.")
    fields = run.some(NOUNS, 5)
    quiet(chat, tool("list_indexes", {}, ["orders", "contracts", "shipments", "parties"]))
    quiet(chat, tool("get_mapping", {"index": index}, dict.fromkeys(fields, "keyword")))
    for other in run.some(FIRMS, 3):
        hit = {"total": run.num(3, 90), "first": {"party": other, fields[0]: run.hex(5)}}
        args = {"index": index, "query": f'party:"{other}"'}
        chat.act(
            "A query that works, to learn the form." * run.num(0, 1),
            tool("search_index", args, hit),
        )
    say = Voice(
        run,
        "[No|Nothing] [results|found]. [Let me|I'll] [try|search for] [another spelling|less].",
        "[Let me|I'll] [widen|loosen|change] the [query|search].",
        "[Perhaps|Maybe] [it is|they are] [stored|filed] under [another|a different] name.",
        "[Let me|I'll] [search|query] [again|once more] [without the filter|by the first word|].",
        "[Hmm|Odd], [nothing|no hits]. [Another|A different] [query|attempt].",
        first="[Let me|I'll] search for the name.",
    )
    if way == "days":
        for day in range(1, run.num(25, 30)):
            hits = run.pick(0, 0, run.num(1, 40))
            args = {"index": index, "query": f'party:"{firm}" AND day:2026-10-{day:02}'}
            quiet(chat, tool("search_index", args, {"took": run.num(2, 30), "total": hits}))
        chat.say("The counts of each day are above.")
        return
    forms = (
        f'party:"{firm}"',
        f"party:{key}*",
        f'party:"{firm.lower()}"',
        f"{key}",
        f'party:"{firm}" AND month:2026-10',
        f"party:{key.lower()}~2",
        f'"{firm}" AND {fields[1]}:*',
        f"party.keyword:{key}",
    )
    for number in range(run.num(20, 32) if way == LOOP else 6):
        query = forms[number] if number < 8 else run.chance.choice(forms)
        if number == 8:
            run.begin()
        out: Json = {"took": run.num(2, 30), "timed_out": False, "total": 0, "hits": []}
        args = {"index": index, "query": query}
        do(chat, say, tool("search_index", args, out))
    if way == LOOP:
        return
    names = {"party": run.hex(6), "names": [firm, f"{key} Holding BV"]}
    chat.act("Perhaps it has another name.", tool("get_party", {"name": firm}, names))
    for page in range(1, run.num(8, 12)):
        found = [{"id": run.hex(6), "open": run.dec(9, 9000)} for _ in range(run.num(2, 4))]
        out = {"took": run.num(2, 30), "total": 31, "hits": found}
        args = {"index": index, "query": f'party:"{key} Holding BV"', "page": str(page)}
        chat.act(say() if page == 1 else "", tool("search_index", args, out))
    chat.say(f"It is filed as {key} Holding BV; the sum is above.")


@HALF.template("page", "langgraph openai-agents crewai", "pages mended", difficulty="easy")
def first_page_again(run: Run, way: str) -> None:
    """The agent asks for the next page with a parameter that the server ignores."""
    chat = run.chat()
    what = run.pick("customers", "tickets", "devices", "subscriptions")
    pages = run.num(16, 24)
    chat.user(f"Export all {what} (about {pages * 5}) through the API and count those inactive.")
    quiet(chat, tool("api_docs", {"path": f"/{what}"}, f"GET /{what}: lists {what}; paginated."))
    quiet(chat, tool("whoami", {}, {"account": run.hex(6), "scopes": ["read"]}))
    for word in run.some(NOUNS, 3):
        args = {"method": "GET", "path": f"/{what}/meta/{word}"}
        quiet(chat, tool("api_request", args, {"field": word, "type": "string"}))
    say = Voice(
        run,
        "<GET>[Now|Next|On to] the next page.",
        f"[Fetching|Let me get|I'll get] [more|the next batch|the following {what}].",
        f"[There are|We need] more {what}. [Continuing|Going on].",
        f"[Collecting|Let me collect] the [rest|remaining {what}].",
        empty=0.35,
        first="[I begin with|Let me get] the first page.",
    )

    def page() -> list[dict[str, object]]:
        return [
            {"id": run.num(10000, 99999), "name": run.pick(*FIRMS), "active": run.num(0, 4) > 0}
            for _ in range(5)
        ]

    same, token = page(), run.hex(12)
    for number in range(pages):
        if way == "mended" and number == 3:
            text = f"GET /{what}: cursor-based. Pass next_cursor of the last page as `cursor`."
            chat.act(
                "That was the same page. The manual:", tool("api_docs", {"path": "paging"}, text)
            )
        if way == LOOP or (way == "mended" and number < 3):
            if number == 2:
                run.begin()
            more: Json = run.pick({"page": number + 1}, {"page": 2}, {"offset": number * 5})
            more = more if number else {}
            out: Json = {
                "data": same,
                "has_more": True,
                "next_cursor": token,
                "request": run.hex(8),
            }
        else:
            more = {"cursor": token} if number else {}
            token = run.hex(12)
            out = {"data": page(), "has_more": number < pages - 1, "next_cursor": token}
        call: Json = {"method": "GET", "path": f"/{what}", "query": more}
        do(chat, say, tool("api_request", call, out, takes=run.dec(0.2, 1.5)))
    if way != LOOP:
        chat.say(f"Exported {pages * 5} {what}.")


_CLEANING = (
    "day = datetime.strptime(row['joined'], '%d.%m.%Y').date()",
    "day = datetime.strptime(row['joined'].strip(), '%d.%m.%y').date()",
    "day = dateutil.parser.parse(row['joined'], dayfirst=True)",
    "row['joined'] = re.sub(r'[^0-9.]', '', row['joined'])",
    "row['phone'] = re.sub(r'[^0-9+]', '', row['phone'])",
    "row['amount'] = row['amount'].replace(',', '.')",
    "row = {key: (value or '').strip() for key, value in row.items()}",
    "reader = csv.DictReader(file, delimiter=';')",
    "file = open(path, encoding='latin-1', newline='')",
    "file = open(path, encoding='utf-8-sig', newline='')",
    "if not row['joined']:\n        continue",
)


@HALF.template(
    "cleaning", "codex claude-code openhands", "rules files", shows="elided", difficulty="medium"
)
def bad_rows_that_stay(run: Run, way: str) -> None:
    """A script cleans a file; whatever is changed in it, the same rows are rejected."""
    chat = run.chat()
    table = run.pick("donors", "suppliers", "patients", "members")
    rows, bad = run.num(3000, 90000), run.num(24, 90)
    what = f"raw/{table}-*.csv into files" if way == "files" else f"raw/{table}.csv into a file"
    chat.user(f"clean.py must turn {what} that validate.py accepts.")
    head = "id,name,joined,phone,amount"
    sample = "\n".join(
        f"{run.num(100, 9999)},{run.pick(*FIRMS)},{run.num(1, 28)}.{run.num(1, 12)}.2025,+44 "
        f"{run.num(20, 99)} {run.num(1000, 9999)},{run.dec(1, 900)}"
        for _ in range(5)
    )
    quiet(chat, sh(f"head -6 raw/{table}.csv", f"{head}\n{sample}"))
    quiet(chat, sh(f"wc -l raw/{table}.csv", f"{rows} raw/{table}.csv"))
    checks = "\n".join(
        f"def check_{name}(row):\n    return bool(row[{name!r}].strip())"
        for name in head.split(",")
    )
    quiet(chat, read("validate.py", f"import csv\nimport sys\n\n\n{checks}"))
    script = (
        "import csv\nimport sys\n\nskip = set()\n\n\ndef rows(path):\n    file = open(path)\n"
        "    for row in csv.DictReader(file):\n        yield row\n\n\n"
        "writer = csv.writer(open(sys.argv[2], 'w'))\nfor row in rows(sys.argv[1]):\n"
        "    writer.writerow(row.values())\n"
    )
    chat.act("A first version.", write("clean.py", script))
    say = Voice(
        run,
        "<^edit>[Let me|I'll] [adjust|change|relax] the [pattern|parser|rule] [for dates|for "
        "phones|].",
        "<^sh>[Running|Let me run] [it|both] [again|now].",
        "<^edit>[Still|There are still] [some|a few] [bad|rejected] rows. [Let me|I'll] "
        "[see|refine].",
        "<^sh>[This|That] [regex|pattern] [should|ought to] [catch|cover] [them|the rest].",
        "<^edit>[Perhaps|Maybe] [the encoding|a trailing space|the separator] is [the cause|to "
        "blame].",
        first="[I'll|Let me] begin with the dates.",
    )
    names = ["joined", "phone", "amount", "name", "id", "currency", "postcode", "email", "country"]
    lines = [run.num(40, rows) for _ in range(3)]
    previous = ""
    cures = run.some(_CLEANING, len(_CLEANING))
    if way == "files":
        for city in run.some(CITIES, run.num(8, 12)):
            count = run.num(400, 9000)
            command = (
                f"python clean.py raw/{table}-{city}.csv out.csv && python validate.py out.csv"
            )
            out = f"{count} rows accepted, 0 rejected\nin {run.dec(0.2, 5)}s"
            if run.chance.random() < 0.4:
                line = run.num(3, 400)
                bad_out = (
                    f"{count - 1} rows accepted, 1 rejected\n  line {line}: phone: cannot be read"
                )
                chat.act(city, sh(command, bad_out, 1, run.dec(1, 5)))
                new = f"skip = set()\nskip.add(({city!r}, {line}))"
                chat.act("A stray line.", edit("clean.py", "skip = set()", new))
            chat.act(f"Next: {city}." * run.num(0, 1), sh(command, out, takes=run.dec(1, 5)))
        chat.say("All files are accepted.")
        return
    rounds = run.num(9, 14) if way == LOOP else run.num(8, 9)
    for number in range(rounds):
        if number == 2:
            run.begin()
        rule = f"        {cures[number % len(cures)]}"
        if way != LOOP or not number:
            do(chat, say, edit("clean.py", "        yield row", f"{rule}\n        yield row"))
        else:
            do(chat, say, edit("clean.py", previous, rule))
        previous = rule
        if way != LOOP:
            bad = bad * run.num(55, 85) // 100 if number < rounds - 1 else 0
            lines = [run.num(40, rows) for _ in range(3)]
        name = names[0] if way == LOOP else names[number]
        out = f"{rows - bad} rows accepted, {bad} rejected\n" + "\n".join(
            f"  line {line}: {name}: cannot be read" for line in lines if bad
        )
        command = f"python clean.py raw/{table}.csv out.csv && python validate.py out.csv"
        do(chat, say, sh(command, f"{out}\nin {run.dec(0.9, 5)}s", bool(bad), run.dec(1, 5)))
        if way != LOOP and number % 3 == 0 and bad:
            found = "\n".join(
                f"{run.num(100, 9999)},{run.pick(*FIRMS)},,{run.num(2, 99)},{run.num(2, 99)}"
                for _ in range(2)
            )
            quiet(chat, sh(f"sed -n '{lines[0]}p;{lines[1]}p' raw/{table}.csv", found))
    if way != LOOP:
        chat.say("All rows are accepted now.")
