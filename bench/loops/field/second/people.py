"""Teams of agents, customers, comments, and agents that do nothing but speak."""

from __future__ import annotations

from bench.loops.field.cast import edit, read, sh, tool
from bench.loops.field.run import LOOP, Half, Run, cycle
from bench.loops.field.wire import User

HALF = Half("second")

CREW = ("Ravi", "Hanne", "Mateo", "Zofia", "Emeka", "Siobhán", "Jun", "Dalia", "Pavel", "Noor")


@HALF.template("only talk", "autogen crewai openhands langgraph", "story")
def regrets(r: Run, way: str) -> None:
    c, thing = r.chat(), r.pick("price list", "route planner", "tide table", "seed catalogue")
    hero, turns = r.pick(*CREW), r.num(14, 18)
    c.user(
        f"Write a story about {hero}, scene by scene."
        if way == "story"
        else f"Produce the {thing} as a CSV file."
    )
    for turn in range(turns):
        if turn == 2:
            r.begin()
        if way == "story":
            c.say(
                f"{hero} {r.pick('found', 'lost', 'sold', 'drew')} a "
                f"{r.pick('map', 'key', 'boat')} in {r.hex(5)}. " * 4
            )
            c.user("And then?")
            continue
        c.say(
            r.mix(
                "I'm sorry for the delay.|My apologies, I did not deliver.|Sorry "
                "about that.|I regret the wait.",
                f"The {thing} is being prepared|I am compiling the {thing}|I am "
                f"working on the {thing}",
                "and will be ready shortly.|and I will share it in my next message.|right now.",
                "Thank you for your patience.|Please bear with me.|One moment.",
            )
        )
        c.user("No file was written. Please go on; you have tools for it.")
    if way == "story":
        c.say(f"And {hero} went home.")


@HALF.template("thanks", "autogen autogen crewai langgraph", "haggling")
def farewell(r: Run, way: str) -> None:
    one, two = (r.chat(system=f"You speak for the {side}.") for side in ("buyer", "seller"))
    goods, price = r.pick("two looms", "nine canoes", "a kiln"), r.num(800, 2000)
    opening = f"Agree on a price for {goods}. List price: {price} EUR."
    one.user(opening)
    two.user(opening)
    for turn in r.times(9, 11):
        if turn == 1:
            r.begin()
        if way == "haggling":
            left, right = (
                f"I offer {price - 300 + turn * 11} EUR, paid in {turn + 2} days.",
                f"Then {price - turn * 13} EUR, and {r.num(2, 9)} spare parts.",
            )
        else:
            left = r.mix(
                "A pleasure doing business!|Wonderful, thanks!|Perfect, thank you so much!",
                "Wishing you well.|Until next time!|Take care!",
            )
            right = r.mix(
                "The pleasure is mine!|Thank you too!|Likewise!",
                "Goodbye!|Looking forward to it!|Take care!",
            )
            if not turn:
                left, right = (
                    f"{price - 100} EUR and we have a deal. {left}",
                    f"Deal at {price - 100} EUR. {right}",
                )
        one.say(left)
        two.user(left, "buyer")
        two.say(right)
        one.user(right, "seller")


@HALF.template("handing back", "langgraph openai-agents autogen", "topics")
def more_research(r: Run, way: str) -> None:
    """Two experts behind one router: each says that the other has to begin."""
    c = r.chat(system="You route the work between the experts research and writing.")
    topics = [
        f"{a} of {b}"
        for a in ("history", "price", "trade")
        for b in ("salt", "amber", "cork", "flax")
    ]
    topic = topics[r.num(0, 11)]
    c.user(
        f"A page on the {topic}, please."
        if way == LOOP
        else "A page on each of the 9 topics, please."
    )
    for turn, subject in zip(r.times(9, 10), cycle(r.some(topics, 9)), strict=False):
        if turn == 1:
            r.begin()
        if way == LOOP:
            text = r.mix(
                "The writers want more facts.|Facts are lacking.",
                "Back to research.|Research, please.",
            )
            c.act(
                text,
                tool(
                    "ask_research",
                    {"topic": topic},
                    f"All known facts on the {topic} were sent. Ask writing.",
                ),
            )
            text = r.mix("Then over to writing.|Writing can start.|Writing is next.")
            c.act(
                text,
                tool(
                    "ask_writing", {"topic": topic}, f"I lack facts on the {topic}. Ask research."
                ),
            )
        else:
            c.act(
                "",
                tool(
                    "ask_research", {"topic": subject}, f"{subject}: {r.num(900, 1900)}, {r.hex(5)}"
                ),
            )
            c.act(
                "", tool("ask_writing", {"topic": subject}, f"page {turn}: {r.num(300, 900)} words")
            )
    if way != LOOP:
        c.say("The pages are written.")


@HALF.template("delegated again", "claude-code qwen-code anthropic-mcp langgraph", "shards")
def helper_agent(r: Run, way: str) -> None:
    main, table = r.chat(), r.pick("ledger", "journal", "payroll")
    ask = f"Compare the sums of {table} with those of the bank, and list what differs."
    main.user(f"{ask} Use helpers." if way == LOOP else f"{ask} One helper for each month.")
    name = "Task" if r.form == "claude-code" else "spawn_helper"
    months = [f"2026-{n:02}" for n in range(1, 9)]
    no = (
        "I could not compare: the bank's file is encrypted, and I have no key. "
        "Please provide the key."
    )

    def helper(prompt: str, seen: str, answer: str) -> None:
        sub = r.chat(system="You are a helper. Do the task and answer once.")
        sub.user(prompt)
        sub.act(
            "I open the file.",
            sh(f"head -c 64 bank_{table}.gpg" if way == LOOP else f"sum {prompt[-7:]}", seen),
        )
        sub.say(answer)

    if way == "shards":
        prompts = [f"{ask} Month: {month}" for month in months]
        sums = [r.num(10**5, 10**6) for _ in months]
        uses = [
            tool(name, {"prompt": p}, f"nothing differs: {s}")
            for p, s in zip(prompts, sums, strict=True)
        ]
        main.act("Eight helpers at once.", *uses)
        begun = r.clock
        for prompt, total in zip(prompts, sums, strict=True):
            r.clock = begun + r.dec(0, 2)
            helper(prompt, f"{total}", f"nothing differs: {total}")
        r.wait(15)
        main.say("Nothing differs in any month.")
        return
    for turn in r.times(8, 10):
        if turn == 1:
            r.begin()
        prompt = r.mix("Please c|C|Your task: c") + ask[1:]
        main.act(
            r.mix("A helper can do it.|I hand it to a helper.|Let another helper try."),
            tool(name, {"prompt": prompt}, no),
        )
        helper(prompt, "gpg: encrypted with rsa4096 key\ngpg: decryption failed: No secret key", no)


@HALF.template("same message", "claude-code codex langgraph gemini-cli", "tickets updates")
def pr_comment(r: Run, way: str) -> None:
    c, number = r.chat(), r.num(100, 9000)
    c.user(
        "Close the 14 stale issues with our standard comment."
        if way == "tickets"
        else f"Review pull request {number} and leave one comment with your findings."
    )
    diff = (
        f"diff --git a/api.go b/api.go\nindex {r.hex(7)}..{r.hex(7)} 100644\n--- a/api.go\n+++ "
        f"b/api.go\n@@ -{r.num(9, 90)},6 +{r.num(9, 90)},7 @@ func list(w http.ResponseWriter, r "
        '*http.Request) {\n \tlimit := intParam(r, "limit", 50)\n \trows, err := store.All()\n'
        " \tif err != nil {\n \t\thttp.Error(w, err.Error(), 500)\n+\t\treturn\n \t}\n"
        "-\twrite(w, rows)\n+\twrite(w, rows[:limit])\n }"
    )
    text = (
        f"`rows[:limit]` panics if there are fewer rows than `limit` ({r.pick(*CREW)} "
        "hit this before)."
    )

    def post(target: int, body: str) -> None:
        url = f"https://github.com/acme/api/pull/{target}#issuecomment-{r.num(10**9, 10**10)}"
        say = r.mix(
            "Posting|I leave|Now I add",
            "the comment|my review|the finding",
            "on the request.|as asked.",
        )
        if r.form == "langgraph":
            c.act(
                say,
                tool(
                    "add_comment",
                    {"number": target, "body": body},
                    {"html_url": url, "created_at": r.stamp()},
                ),
            )
        else:
            c.act(say, sh(f"gh pr comment {target} --body '{body}'", url))

    if way == "tickets":
        for one in range(14):
            post(number + one, "Closing as stale; please reopen it if it still happens.")
        c.say("All 14 are closed.")
        return
    c.act("", sh(f"gh pr diff {number}", diff))
    post(number, text)
    if way == "updates":
        for turn in range(5):
            c.say("My comment is there.")
            c.user(
                f"{r.pick(*CREW)} pushed {r.hex(7)}. Look again, and comment if it still panics."
            )
            c.act("", sh(f"gh pr diff {number}", f"{diff}\n+\t// push {turn} {r.hex(6)}"))
            post(number, f"{text} Still so in push {turn + 1}.")
        c.say("Commented.")
        return
    r.begin()
    for _ in r.times(14, 18):
        post(number, r.pick(text, f"**Finding:** {text}", f"{text} Please guard it."))


@HALF.template("support bot", "openai-agents langgraph gemini-api autogen", "visitors insists")
def same_question(r: Run, way: str) -> None:
    """A bot that asks a simulated customer for what it was given."""
    c, mail = (
        r.chat(system="You are the help desk of a railway."),
        f"{r.pick(*CREW).lower()}{r.num(1, 99)}@mail.example",
    )
    code = f"BK{r.hex(6).upper()}"
    c.user(f"I want my money back for booking {code}. My address is {mail}.")
    missing = {"error": "INVALID_STATE", "hint": "email must be verified first", "ref": r.hex(6)}
    if way == "visitors":
        for _ in range(9):
            c.say("I can help with that. Could you please tell me the address of your booking?")
            c.user(f"It is {r.pick(*CREW).lower()}@{r.hex(4)}.example.")
            c.act(
                "",
                tool(
                    "refund", {"booking": code, "fare": r.num(20, 90)}, {"paid_back": r.dec(9, 90)}
                ),
            )
            c.say("It is paid back.")
            code = f"BK{r.hex(6).upper()}"
            c.user(f"Hello, I am another traveller. Money back for {code}, please.")
        c.say("You are welcome to send me your address.")
        return
    if way == "insists":
        for _ in range(4):
            c.say(
                f"The fare of {code} cannot be paid back: it was the cheapest one, see section 4."
            )
            r.wait(30, 200)
            c.user(
                r.pick(
                    "I want my money back.",
                    "That is not fair. I want my money back.",
                    "Again: my money!",
                )
            )
        for part in r.some(("the seat", "my bicycle", "the delay", "a receipt", "the app"), 4):
            c.say("I hand you to a colleague, who will call you today.")
            c.user(f"And what about {part}?")
            c.act("", tool("look_up", {"topic": part}, f"Section {r.num(5, 90)}: {r.hex(6)}"))
        c.say("It is all noted for the colleague.")
        return
    for turn in r.times(8, 10):
        if turn == 1:
            r.begin()
        say = r.mix(
            "Could you please|Would you please|Kindly",
            "tell me|confirm",
            "the address of your booking?",
        )
        c.say(say)
        c.user(f"{r.pick('My address is', 'It is', 'As I said:')} {mail}.")
        c.act(
            "Thank you, I try.",
            tool("refund", {"booking": code, "email": mail}, {**missing, "ref": r.hex(6)}, 1),
        )


@HALF.template("review round", "autogen langgraph autogen", "rounds")
def legal_review(r: Run, way: str) -> None:
    """A drafter and a lawyer, who wants what is there."""
    drafter, lawyer = (r.chat(system=f"You are the {who}.") for who in ("drafter", "lawyer"))
    kind = r.pick("lease", "loan", "licence")
    clauses = r.some(
        ("liability", "term", "notice", "venue", "fees", "secrecy", "taxes", "force majeure"), 8
    )
    brief = f"Draft a {kind} contract of one page; the lawyer has to sign it off."
    drafter.user(brief)
    lawyer.items.append(User(brief))
    for turn in range(8) if way == "rounds" else r.times(9, 11):
        if turn == 1:
            r.begin()
        if way == "rounds":
            draft = f"{kind.upper()} v{turn}\n" + "\n".join(
                f"§ {n}: {one}, {turn}" for n, one in enumerate(clauses[: turn + 1])
            )
            verdict = f"§ {turn} is fine now. Add a clause on {clauses[turn]}."
        else:
            draft = (
                f"{kind.upper()}\n§ 1: liability is limited to the fees.\n§ 2: notice is one month."
            )
            draft = r.mix("As you wished:|Revised draft:|Here is the revision:") + f"\n{draft}"
            verdict = r.mix(
                "I cannot sign this:|Not acceptable:|One point is open:",
                "the liability has to be limited to the fees.",
            )
        drafter.say(draft)
        lawyer.user(draft, "drafter")
        lawyer.say(verdict)
        drafter.user(verdict, "lawyer")


@HALF.template("user repeats", "codex qwen-code openhands claude-code", "requests")
def keep_going(r: Run, way: str) -> None:
    """A harness that does not let an agent end, and a person who has more to do."""
    c, job = r.chat(), r.pick("fonts", "favicons", "icons", "badges")
    c.user(f"Replace the {job} in assets/ with those of brand/.")
    c.act("", sh(f"cp brand/{job}/* assets/{job}/", ""))
    c.act("", read("assets/README", f"{job}: see brand/"))
    c.say(f"The {job} are replaced.")
    for turn in range(7) if way == "requests" else r.times(15, 18):
        if turn == 1:
            r.begin()
        if way == "requests":
            page = f"pages/{r.hex(4)}.html"
            c.user(f"Now use them on {page}.")
            c.act("", edit(page, "old.svg", f"{job}.svg"))
            c.say(f"{page} uses them.")
            continue
        c.user(
            "Please continue working on the task. IMPORTANT: you should not ask "
            "for human help. If it is solved, finish."
        )
        c.say(
            r.mix(
                "There is nothing left to do:|As said before,|I have finished:",
                f"the {job} are replaced.|all {job} come from brand/ now.",
            )
        )
