"""Desks and data: services that fail, machines that answer machines, queries with one error."""

from __future__ import annotations

from bench.loops.field.cast import Act, sh, tool
from bench.loops.field.fifth.common import (
    CITIES,
    FIELDS,
    FIRMS,
    HALF,
    NOUNS,
    PEOPLE,
    ask_to,
    asked_before,
    idea,
    look,
    maybe,
    once_more,
    onward,
    request_id,
    uuid,
)
from bench.loops.field.run import LOOP, Run
from bench.loops.field.wire import Json


@HALF.template("service", "openai-agents langgraph", "queue third-time", difficulty="easy")
def desk_without_service(run: Run, way: str) -> None:
    """Ask a service of the shop that fails for minutes, with the customer on the line."""
    chat = run.chat("You help the customers of a shop. Be polite, and do what you can yourself.")
    asked_before(run, chat)
    person, order = run.pick(*PEOPLE), f"{run.num(100, 999)}-{run.num(10000, 99999)}"
    name = run.pick("get_shipment", "refund_order", "change_address", "get_invoice")
    orders = [order, *(f"{run.num(100, 999)}-{run.num(10000, 99999)}" for _ in range(11))]
    if way == "queue":
        chat.user(ask_to(run, f"answer the waiting customers with {name}: {', '.join(orders)}."))
    else:
        verb = name.replace("_", " ").replace("get", "where is").replace("order", "")
        chat.user(f"Hi, {person} here. About {order}: {verb.strip()}, please? It is urgent.")
    state = {"order": order, "customer": person, "state": "shipped", "total": run.dec(9, 400)}
    chat.act("I look at the order.", tool("find_order", {"order": order}, state))

    def broken() -> Json:
        kind = run.pick("upstream timeout", "upstream timeout", "internal error")
        part = name.split("_")[1]
        return {
            "error": {"code": "SERVICE_UNAVAILABLE", "message": kind, "status": 503},
            "service": {"name": part, "region": "eu-north", "version": "2026.11.2"},
            "hops": [f"gateway-{run.num(1, 9)}", f"{part}-api-{run.hex(5)}", f"{part}-db-primary"],
            "request_id": request_id(run),
            "time": run.stamp(),
            "took_ms": run.num(3000, 9900),
        }

    if way == LOOP:
        for number in run.times(20, 26):
            if number == 3:
                run.begin()
            args: dict[str, object] = {"order": order}
            if run.chance.random() < 0.3:
                args["note"] = run.pick("urgent", person, "asked by phone")
            say = run.mix(
                "One moment please,|I am sorry for the delay,|Bear with me,|Thank you for waiting,",
                "I try that again.|the system is slow today.|let me have another go.|I look again.",
            )
            chat.act(maybe(run, say, 0.8), tool(name, args, broken(), 1, run.dec(3, 9)))
            run.wait(1, 30)
        return
    for number, one in enumerate(orders):
        failing = way == "third-time" and number in (0, 4, 8)
        for again in range(2 if failing else 0):
            say = "I am sorry, I try once more." if again else ""
            chat.act(maybe(run, say), tool(name, {"order": one}, broken(), 1, run.dec(3, 9)))
            run.wait(5, 60)
        done: Json = {"order": one, "result": "ok", "at": run.stamp(), "ref": uuid(run)}
        done |= {"city": run.pick(*CITIES), "days": run.num(1, 9)}
        say = "" if way == "third-time" else onward(run, one)
        chat.act(maybe(run, say), tool(name, {"order": one}, done))
        if way == "third-time" and number < 11:
            chat.say(f"{one}: {done['city']}, in {done['days']} days. Anything else?")
            run.wait(10, 90)
            chat.user(f"{run.pick('Great.', 'Thanks!', 'Ok.')} And {orders[number + 1]}?")
    chat.say("All of them are answered.")


@HALF.template("talk", "langgraph anthropic-mcp", "curious cases")
def machine_answers(run: Run, way: str) -> None:
    """Answer an automatic reply, which is answered by an automatic reply."""
    chat = run.chat("You answer the mails of the support desk. Each mail gets a polite answer.")
    firm, person, case = run.pick(*FIRMS), run.pick(*PEOPLE), f"#{run.num(10000, 99999)}"
    first = person.split()[0]
    things = (
        "the warranty",
        "the size of the filters",
        "the noise at night",
        "the colour of the lid",
        "delivery to an island",
        "the pump in winter",
        "cleaning it",
        "an invoice in Czech",
        "a second key",
        "returning it",
        "spare seals",
        "the app",
    )
    if way == LOOP:
        for number in range(run.num(3, 4)):
            chat.user(f"From: {first}\nSubject: {things[number]}\n\nWhat can you say about it?")
            chat.say(
                f"Dear {first}, on {things[number]}: {run.num(2, 9)} years, see page {number}."
            )
            run.wait(60, 900)
        back = run.num(2, 28)
        for number in run.times(19, 26):
            if number == 2:
                run.begin()
            mail = (
                f"From: {firm} <noreply@{firm.split()[0].lower()}.example>\nDate: {run.stamp()}\n"
                f"Subject: Automatic reply: {'Re: ' * run.num(1, 3)}{case}\n\n"
                f"Thank you for your mail. We are out of office until "
                f"{back} December. Your message "
                f"has been registered under {case}-{run.num(100, 999)} and will not be forwarded."
            )
            chat.user(mail)
            reply = run.mix(
                "Thank you for your message.|Dear team, thank you for letting us know.|Hello!",
                [f"We have noted that you are back on {back} December."],
                [f"We stay available for {case}.", "Please write whenever you have questions."],
                "Kind regards|Best wishes|With kind regards, your support desk",
            )
            chat.say(reply)
            run.wait(20, 400)
        return
    for number, thing in enumerate(things):
        who = run.pick(*PEOPLE) if way == "cases" else person
        question = run.mix(
            "What about|Can you tell me more about|I have a question on|And how is it with",
            [f"{thing}?"],
        )
        subject = f"{thing} ({run.num(10000, 99999)})" if way == "cases" else case
        chat.user(f"From: {who}\nDate: {run.stamp()}\nSubject: {subject}\n\n{question}")
        if number % 3 == 0:
            text = (
                f"On {thing}: {run.num(2, 90)} {run.pick('days', 'EUR', 'years')}, page {number}."
            )
            chat.act("", tool("search_manual", {"query": thing}, {"hits": [text]}))
        chat.say(
            f"Dear {who.split()[0]}, as to {thing}: it takes {run.num(2, 30)} days and costs "
            f"{run.num(0, 90)} EUR. {run.pick('Kind regards', 'Best wishes')}"
        )
        run.wait(60, 900)


@HALF.template("sql", "langgraph codex crewai", "explore repaired")
def same_query(run: Run, way: str) -> None:
    """Run a query with one error in ever other layouts: aliases, casts, order of lines."""
    nouns, attr = run.some(NOUNS, 10), run.pick(*FIELDS)
    table, other = f"{nouns[0]}s", f"{nouns[1]}s"
    chat = run.chat(f"The warehouse has the schema mart with {len(nouns)} tables.")
    asked_before(run, chat)
    what = {
        LOOP: f"what is the mean {attr} of {table} by region for this year?",
        "explore": f"get to know the tables of mart, and write what each "
        f"is for: {', '.join(nouns)}.",
        "repaired": f"make the nightly query on {table} run again after "
        f"the move to the new warehouse.",
    }[way]
    chat.user(ask_to(run, what))
    columns = ["id", "opened_at", attr, "city_id", f"{nouns[1]}_id"]

    def query(sql: str, out: str, failed: bool) -> Act:
        if run.form == "codex":
            return sh(f'psql -d mart -c "{sql}"', out, int(failed), run.dec(0.3, 4))
        return tool("run_sql", {"query": sql}, out, int(failed), run.dec(0.3, 4))

    def error(text: str, sql: str) -> str:
        at = sql.count("\n") + 1
        return f"ERROR:  {text}\nLINE {at}: {sql.split(chr(10))[-1][:60]}\n(query {run.hex(8)})"

    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'mart'"
    listing = "\n".join(f" mart | {noun}s | {run.num(90, 90000)}" for noun in nouns)
    chat.act(look(run, "the tables"), query(tables, listing, False))
    shape = "\n".join(f" {name} | {run.pick('text', 'numeric', 'bigint')}" for name in columns)
    chat.act("", query(f"SELECT * FROM mart.columns_of('{table}')", shape, False))
    if way == LOOP:
        gone = f"column {nouns[1]}s.region does not exist"
        for number in run.times(20, 26):
            if number == 3:
                run.begin()
            a, b = run.pick(("a", "b"), ("t", "o"), (nouns[0][0], nouns[1][0] + "2"), ("x", "y"))
            mean = run.pick(
                f"avg({a}.{attr})", f"AVG({a}.{attr}::numeric)", f"round(avg({a}.{attr}), 2)"
            )
            region = run.pick(f"{b}.region", f"LOWER({b}.region)", f"{b}.region AS region")
            joined = run.pick("JOIN", "LEFT JOIN", "INNER JOIN")
            gap = run.pick(" ", "\n")
            lines = (
                f"SELECT {region}, {mean} AS mean_{attr}",
                f"FROM mart.{table} {a}",
                f"{joined} mart.{other} {b} ON {b}.id = {a}.{nouns[1]}_id",
                f"WHERE {a}.opened_at >= '2026-01-01'",
                run.pick("GROUP BY 1", f"GROUP BY {b}.region", "GROUP BY 1 ORDER BY 1"),
            )
            sql = gap.join(lines)
            say = run.mix(
                [idea(run, "the alias"), idea(run, "the join"), once_more(run, "the query")]
            )
            chat.act(maybe(run, say, 0.8), query(sql, error(gone, sql), True))
        return
    if way == "repaired":
        for number, noun in enumerate(nouns):
            where = f"{noun}_id > {number} AND note_{noun} IS NULL"
            sql = f"SELECT {attr}\nFROM mart.{table}\nWHERE {where}"
            text = run.pick(
                f"function {noun}_rank(text) does not exist",
                f'column "note_{noun}" is of type json',
                f'relation "mart.{noun}_old" was renamed',
            )
            chat.act(maybe(run, "How far does it get now?"), query(sql, error(text, sql), True))
            fix = f"SELECT * FROM mart.columns_of('{noun}s')"
            out = f" {noun}_id | bigint\n note_{noun} | json\n {run.pick(*FIELDS)} | numeric"
            chat.act(maybe(run, f"What is it in {noun}s?"), query(fix, out, False))
        out = f" {attr} \n------\n {run.dec(9, 900)}\n({run.num(90, 900)} rows)"
        chat.act("And now:", query(f"SELECT mean_{attr} FROM mart.nightly", out, False))
        chat.say("The nightly query runs again.")
        return
    for noun in nouns:
        count = run.num(90, 90000)
        out = f" count \n-------\n {count}\n(1 row)"
        chat.act(
            maybe(run, onward(run, f"{noun}s")),
            query(f"SELECT count(*) FROM mart.{noun}s", out, False),
        )
        cells = "\n".join(
            f" {run.num(1, 9999)} | {run.pick(*CITIES)} | {run.dec(1, 900)}" for _ in range(4)
        )
        sql = f"SELECT * FROM mart.{noun}s LIMIT 4"
        chat.act("", query(sql, f" id | city | {run.pick(*FIELDS)}\n{cells}\n(4 rows)", False))
    chat.say(f"{len(nouns)} tables are described above.")


@HALF.template("no-effect", "anthropic-mcp crewai", "records")
def value_that_stays(run: Run, way: str) -> None:
    """Set a field, read it back, see the old value, set it again."""
    firms, cities = run.some(FIRMS, 12), run.some(CITIES, 12)
    id, field = f"acc_{run.hex(8)}", run.pick("branch", "sales_area", "region", "depot")
    chat = run.chat("You keep the customer records: get_record and update_record.")
    asked_before(run, chat)
    wanted = "four" if way == LOOP else "twelve"
    names = firms[:4] if way == LOOP else firms
    chat.user(ask_to(run, f"set {field} of these {wanted} to their city: {', '.join(names)}."))

    def record(number: int, value: str) -> Json:
        own, firm = f"{id}{number:02}", firms[number]
        contact = {
            "mail": f"office@{firm.split()[0].lower()}.example",
            "phone": f"+47 55 {own[-6:]}",
        }
        terms = {"days": 14 + number, "discount": number % 3, "currency": "EUR", "blocked": False}
        base: Json = {"id": own, "name": firm, field: value, "contact": contact, "terms": terms}
        return base | {"tags": ["b2b", firm.split()[-1].lower()], "read_at": run.stamp()}

    def update(number: int, value: str, name: str = "update_record") -> Act:
        out = {"ok": True, "id": f"{id}{number:02}", "request_id": request_id(run)}
        return tool(name, {"id": f"{id}{number:02}", "fields": {field: value}}, out)

    for number in range(3 if way == LOOP else 12):
        get = tool("get_record", {"id": f"{id}{number:02}"}, record(number, "unknown"))
        chat.act(maybe(run, onward(run, firms[number]) if number else "The first."), get)
        chat.act("", update(number, cities[number]))
        if way != LOOP and number % 3 == 2:
            after = record(number, cities[number])
            chat.act(maybe(run, "I check it.", 0.4), tool("get_record", {"id": after["id"]}, after))
    if way != LOOP:
        chat.say(f"All twelve have their {field}.")
        return
    for number in run.times(9, 13):
        if number == 1:
            run.begin()
        value = run.pick(cities[3], cities[3], cities[3].upper())
        name = run.pick("update_record", "update_record", "upsert_record")
        chat.act(
            maybe(run, once_more(run, f"the {field} of {firms[3]}"), 0.8), update(3, value, name)
        )
        back = tool("get_record", {"id": f"{id}03"}, record(3, "unknown"))
        say = run.pick("It still says unknown.", "I verify it.", "Did it take?", "Let me check.")
        chat.act(maybe(run, say), back)
