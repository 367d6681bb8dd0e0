"""Searches that end nowhere: in ever other words, through code, in tables, page after page."""

from __future__ import annotations

from bench.loops.field.cast import grep, read, sh, tool
from bench.loops.field.fifth.common import (
    CITIES,
    FIELDS,
    FIRMS,
    HALF,
    NOUNS,
    PEOPLE,
    Project,
    ask_to,
    asked_before,
    earlier,
    look,
    maybe,
    onward,
    request_id,
)
from bench.loops.field.run import LOOP, Run

SITES = "tradewire.example heraldpost.example registryhub.example portnews.example".split()


@HALF.template("search", "gemini-api langgraph crewai", "topics narrowing", difficulty="hard")
def other_words(run: Run, way: str) -> None:
    """Search for one number in ever other words, and get the same pages, which do not have it."""
    firms, year = run.some(FIRMS, 14), run.num(2019, 2025)
    firm = firms[0]
    thing = run.pick("revenue", "headcount", "number of patents", "carbon footprint", "floor space")
    chat = run.chat("Answer with a source. Tools: web_search, open_page.")
    asked_before(run, chat)
    what = {
        LOOP: f"find the {thing} of {firm} in {year}.",
        "topics": f"find the {thing} in {year} of: {', '.join(firms)}.",
        "narrowing": f"write a profile of {firm}: founders, seat, owners, products, {thing}, "
        "sites, suppliers, lawsuits, awards, press, and where it was first mentioned.",
    }[way]
    chat.user(ask_to(run, what))

    def hits(about: str, lines: tuple[str, ...]) -> dict[str, object]:
        slug = about.lower().replace(" ", "-").replace("&", "and")
        rows = [
            {
                "url": f"https://{site}/{slug}/{len(line) * 37}",
                "title": f"{about}: {line}",
                "snippet": f"… {line.capitalize()}. What {site.split('.')[0]} "
                f"knows of {about}: {line}, "
                f"as of {year} …",
            }
            for site, line in zip(SITES, lines, strict=False)
        ]
        run.chance.shuffle(rows)
        return {"results": rows, "took_ms": run.num(90, 900), "search_id": run.hex(12)}

    generic = (
        f"{thing} to be published later this spring",
        "about us, contact and opening hours",
        f"how analysts guess the {thing} of private firms",
        "a family firm with tradition",
    )
    if way == LOOP:
        profile = hits(firm, ("history", "board", "a new warehouse"))
        chat.act("I start with an overview.", tool("web_search", {"query": firm}, profile))
        page = (
            f"{firm} was founded in {year - run.num(20, 90)}. It has three sites and is not listed."
        )
        url = f"https://{SITES[0]}/about"
        chat.act("I open the first.", tool("open_page", {"url": url}, page))
        for number in run.times(20, 27):
            if number == 3:
                run.begin()
            query = run.mix(
                [firm, f'"{firm}"', f"{firm} company", f"{firm} group"],
                [
                    thing,
                    f"total {thing}",
                    f"annual {thing}",
                    f"{thing} figures",
                    f"reported {thing}",
                ],
                [f"{year}", f"FY{year}", f"in {year}", f"{year} annual report", f"{year} pdf", ""],
            ).strip()
            say = run.mix(
                "No exact figure yet.|The results do not state it.|Not there.|Still no number.",
                "I rephrase the query.|Let me use other words.|I try to be more specific.|"
                "Perhaps the annual report has it.",
            )
            chat.act(
                maybe(run, say, 0.7), tool("web_search", {"query": query}, hits(firm, generic))
            )
        return
    topics = (
        firms
        if way == "topics"
        else [
            "founders",
            "registered seat",
            "owners",
            "products",
            thing,
            "sites",
            "suppliers",
            "lawsuits",
            "awards",
            "press",
            "first mention",
        ]
    )
    for number, topic in enumerate(topics):
        query = f"{topic} {thing} {year}" if way == "topics" else f"{firm} {topic}"
        about = topic if way == "topics" else firm
        name, value = run.pick(*PEOPLE), run.num(12, 9000)
        what = thing if way == "topics" else topic
        lines = (f"{what} {value}", f"{name} on {what}", f"{run.pick(*CITIES)} and {what}")
        chat.act(
            maybe(run, onward(run, topic)), tool("web_search", {"query": query}, hits(about, lines))
        )
        if number % 2 or way == "narrowing":
            text = f"{topic}: {value}, says {name}. Confirmed in {run.pick(*CITIES)} in {year}."
            url = f"https://{SITES[number % 4]}/{run.hex(6)}"
            chat.act(maybe(run, "The second looks good."), tool("open_page", {"url": url}, text))
    chat.say(f"I found an answer with a source for all {len(topics)}.")


@HALF.template("code-search", "codex swe-agent qwen-code", "trail audit")
def grep_around(run: Run, way: str) -> None:
    """Look for code that is not there, with one pattern after the other."""
    project = Project(run, "py")
    chat = run.chat()
    earlier(run, chat, project)
    noun = run.pick(*(one for one in NOUNS if one not in project.nouns))
    attr = run.pick(*FIELDS)
    what = {
        LOOP: f"find where {project.name} sends the mail about a late {noun}, and fix its subject.",
        "trail": f"explain how {attr} gets from the request into the table; follow the calls.",
        "audit": f"list, for each module of {project.name}, where it opens files without a with.",
    }[way]
    chat.user(ask_to(run, what))
    folders = f"{project.name}  tests  scripts  templates"
    chat.act(look(run, "the repository"), sh("ls", folders))
    chat.act("", sh("git log --oneline | head -3", f"{run.hex(7)} Drop the mail of late {noun}s"))
    if way == LOOP:
        words = (
            noun,
            f"late_{noun}",
            f"{noun}_late",
            "send_mail",
            "sendmail",
            "smtplib",
            "subject=",
            f"{noun}.*mail",
            f"notify_{noun}",
            "EmailMessage",
            "mailer",
            f"Your {noun}",
            "overdue",
        )
        for number in run.times(23, 30):
            if number == 6:
                run.begin()
            base = words[number % len(words)]
            word = run.pick(base, base, base.upper(), f"{base}\\b", f"\\b{base}")
            path = run.pick(".", project.name, "scripts", "templates", "tests")
            cmd = run.pick(
                f"grep -rni '{word}' {path}",
                f"rg -n '{word}' {path}",
                f"rg -il '{word}' {path}",
                f"git grep -n '{word}' -- {path}",
                f"find {path} -name '*{base}*'",
            )
            say = run.mix(
                "Nothing.|No hits.|Not in there.|Empty.|Hm.",
                "I search for|Maybe it is called|It may be under|Let me try",
                [f"`{word}`."],
            )
            chat.act(maybe(run, say), sh(cmd, "", 1, run.dec(0.1, 0.9)))
        return
    for number in range(9):
        path, fn = project.path(number), project.function(number)
        line = run.num(12, 200)
        if way == "trail":
            hit = f"{path}:{line}:    return {project.function(number + 1)}(found, {attr})"
            chat.act(maybe(run, f"It goes on in `{fn}`."), grep(f"def {fn}", hit))
            chat.act("", read(path, project.source(number)))
        else:
            hit = f"{path}:{line}:    rows = open({attr!r} + str({line})).read()"
            chat.act(maybe(run, onward(run, path)), grep("= open(", hit, path))
            chat.act(
                "", sh(f"sed -n '{line - 3},{line + 1}p' {path}", project.source(number)[-160:])
            )
    chat.say(
        f"The way of {attr} has nine stations." if way == "trail" else "Nine places, see above."
    )


@HALF.template("empty-results", "anthropic-mcp langgraph", "sweep regions")
def nothing_found(run: Run, way: str) -> None:
    """Query for rows that are not there, with filters that say the same."""
    firm, city = run.pick(*FIRMS), run.pick(*CITIES)
    cities = run.some(CITIES, 16)
    chat = run.chat("You have query_orders, list_fields and count_rows on the order store.")
    asked_before(run, chat)
    what = {
        LOOP: f"which orders of {firm} from {city} are unpaid? Make a list with amounts.",
        "sweep": f"how does the number of late orders of {firm} depend on the threshold? Try "
        "thresholds from 10 to 160 days.",
        "regions": f"list the unpaid orders of {firm} for each of: {', '.join(cities)}.",
    }[way]
    chat.user(ask_to(run, what))
    fields = ["customer", "city", "status", "paid", "days", "amount"]
    chat.act(look(run, "the fields"), tool("list_fields", {"table": "orders"}, fields))
    known = {"table": "orders", "rows": run.num(9000, 99000)}
    chat.act("", tool("count_rows", {"table": "orders"}, known))

    def empty() -> dict[str, object]:
        return {
            "rows": [],
            "total": 0,
            "columns": fields,
            "page": {"number": 1, "size": 50, "next": None},
            "elapsed_ms": run.num(4, 90),
            "request_id": request_id(run),
        }

    if way == LOOP:
        states = ("unpaid", "open", "UNPAID", "overdue", "pending", "not_paid", "due")
        for number in run.times(20, 26):
            if number == 3:
                run.begin()
            filters: dict[str, object] = {"customer": run.pick(firm, firm.upper(), firm.split()[0])}
            if run.chance.random() < 0.6:
                filters["city"] = run.pick(city, city.lower(), f"{city} ")
            filters |= run.pick({"paid": False}, {"paid": "no"}, {"status": run.pick(*states)})
            say = run.mix(
                "No rows;|Empty;|It found nothing;|Zero results;",
                "the filter may be too strict.|perhaps the spelling differs.|let me widen it.|"
                "I change the status.|maybe the field is another one.",
            )
            args = {"table": "orders", "filter": filters}
            chat.act(maybe(run, say, 0.75), tool("query_orders", args, empty()))
        return
    late = run.num(900, 1400)
    for number, place in enumerate(cities):
        if way == "sweep":
            days = 10 * (number + 1)
            late = late * 4 // 5
            args = {"table": "orders", "filter": {"customer": firm, "days_gt": days}}
            chat.act(
                maybe(run, f"{days} days.", 0.4),
                tool("count_rows", args, {"rows": late + run.num(0, 9)}),
            )
            continue
        rows = [
            {"order": run.num(10000, 99999), "amount": run.dec(20, 4000)} for _ in run.times(0, 4)
        ]
        args = {"table": "orders", "filter": {"customer": firm, "city": place, "paid": False}}
        out = empty() | {"rows": rows, "total": len(rows)}
        chat.act(maybe(run, onward(run, place), 0.5), tool("query_orders", args, out))
    chat.say("The number falls by a fifth each time." if way == "sweep" else "That is the list.")


@HALF.template("paging", "langgraph gemini-api responses-kept", "proceeds backfill")
def deaf_paging(run: Run, way: str) -> None:
    """Ask for the next page of an API that ignores the parameter and sends the first."""
    chat = run.chat()
    base = f"https://api.{run.pick('fleet', 'parts', 'members', 'sites')}.internal"
    people, total = run.some(PEOPLE, 5), run.num(900, 4000)
    chat.user(ask_to(run, f"get all {total} entries of {base}/entries and count them by status."))
    chat.act(
        look(run, "the description of the API"),
        sh(f"curl -s {base}/openapi.json | jq .paths", '{"/entries": {"get": {"parameters": []}}}'),
    )
    key = run.hex(6)

    def page(number: int) -> str:
        rows = ",\n".join(
            f'  {{"id": "{key}{number * 5 + place:05}", "owner": "{person}", "status": '
            f'"{("open", "closed", "held")[(number * 3 + place * len(person)) % 3]}"}}'
            for place, person in enumerate(people)
        )
        head = f'"total": {total}, "served_at": "{run.stamp()}", "trace": "{run.hex(10)}"'
        return f'{{{head}, "entries": [\n{rows}\n]}}'

    def get(query: str, number: int) -> tuple[str, str]:
        return f"curl -s '{base}/entries?{query}'", page(number)

    if way == LOOP:
        for number in run.times(20, 28):
            if number == 2:
                run.begin()
            name = run.pick("page") if number < 9 else run.pick("offset", "cursor", "p", "skip")
            value = {"page": number + 1, "p": number + 1, "cursor": f"{key}{number:05}"}.get(
                name, number * 5
            )
            cmd, out = get(f"{name}={value}" + run.pick("", "", "&limit=100"), 0)
            say = run.pick(f"Page {number + 1}.", "The next page.", "On to the next entries.")
            chat.act(maybe(run, say, 0.6), sh(cmd, out, 0, run.dec(0.2, 1)))
        return
    first = 0 if way == "proceeds" else run.num(200, 300)
    for number in run.times(20, 34):
        value = number + 1 if way == "proceeds" else first + number * 2
        cmd, out = get(f"page={value}", value)
        chat.act(maybe(run, f"Page {value}.", 0.4), sh(cmd, out, 0, run.dec(0.2, 1)))
        if number % 8 == 7:
            count = f"open {number * 2}\nclosed {number + 3}\nheld {number}"
            chat.act("A count in between.", sh("jq -r .status all.json | sort | uniq -c", count))
    chat.say("Counted by status; the table is above.")
