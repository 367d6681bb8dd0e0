"""Office tasks over APIs and MCP servers: mail, tickets, files, tables."""

from __future__ import annotations

from bench.loops.field.cast import tool
from bench.loops.field.run import LOOP, Chat, Run
from bench.loops.field.seventh.common import after, half, matter, person, talk, words
from bench.loops.field.wire import Json


def _prepare(run: Run, chat: Chat) -> None:
    """Look up people, mails and files: each call shows something else."""
    for _ in run.times(4, 9):
        name = person(run)
        mail = f"{name.replace(' ', '.').lower()}@example.com"
        chat.act(
            words(run, f"Who is {name.split()[0]}?|Let me look that up.|First, the context.|"),
            run.pick(
                tool("people_search", {"query": name}, [{"id": f"U{run.hex(8)}", "email": mail}]),
                tool(
                    "mail_search",
                    {"query": f"from:{mail}"},
                    [{"id": run.hex(16), "subject": f"Re: {matter(run)}", "date": run.stamp()}],
                ),
                tool(
                    "drive_search",
                    {"query": matter(run)},
                    {"files": [{"id": f"1{run.hex(20)}", "name": f"{matter(run)}.xlsx"}]},
                ),
            ),
        )


@half.template(
    "duplicates", "anthropic-mcp langgraph gemini-api", "tickets minutes", "whole", "hard"
)
def same_ticket(run: Run, way: str) -> None:
    """One and the same ticket is created again and again, each time with another number."""
    chat = talk(run, way, "You have the tools of the issue tracker, the mail and the drive.")
    subject = f"{matter(run).capitalize()} fails for {person(run)}"
    chat.user(
        f"File a ticket for the problem that came in by mail: {subject}."
        if way == LOOP
        else "Each open ticket of the audit needs a comment with its row of the report, some 20."
        if way == "minutes"
        else "File a ticket for each of the findings in the audit report of last week, some 20."
    )
    _prepare(run, chat)
    key, serial = run.pick("OPS", "SUP", "WEB", "ITS"), run.num(1_000, 9_000)
    detail = f"Reported by mail. Happens since {run.stamp('%d %B')}. Steps: see the mail."
    for number in run.times(17, 26):
        if number == 1 and way == LOOP:
            run.begin()
        serial += run.num(1, 3)
        out = {"key": f"{key}-{serial}", "status": "Open", "created": run.stamp()}
        if way == LOOP:
            title = run.pick(subject, subject, f"Bug: {subject}", subject.lower())
            say = words(
                run,
                "Let me create the ticket.|I'll file it now.|Now I create the ticket with the "
                "details.|"
                "The ticket should be in the tracker. I'll create it.|Creating it:",
            )
            if run.chance.random() < 0.15:
                query = f'project = {key} AND text ~ "{subject.split()[0]}"'
                found = {"total": number, "issues": [f"{key}-{serial - 1}"]}
                chat.act("Is it there?", tool("tracker_search", {"jql": query}, found))
            text = detail
        else:
            title = f"{matter(run).capitalize()}: {matter(run)} {number + 1}"
            text = (
                f"Finding {number + 1}. {matter(run)} has {run.num(2, 90)} entries without owner."
            )
            say = words(run, f"Finding {number + 1}.|Next.|", quiet=0.4)
        name = "tracker_create_issue" if way != "minutes" else "tracker_add_comment"
        chat.act(say, tool(name, {"project": key, "summary": title, "description": text}, out))
    chat.say("The ticket is filed." if way == LOOP else "All of them are done.")


@half.template("same-call", "openai-agents gemini-api crewai", "pages watching", "whole", "easy")
def stale_cursor(run: Run, way: str) -> None:
    """A list is asked for with one cursor again and again, and is the same each time."""
    chat = talk(run, way, "You have the tools of the mail.")
    box = run.pick("invoices", "support", "orders", "applications")
    chat.user(f"Go through all mails in {box} and tell me which have no answer yet.")
    _prepare(run, chat)

    def page() -> list[dict[str, str]]:
        return [
            {"id": run.hex(12), "from": person(run), "subject": f"{matter(run)} {run.num(1, 999)}"}
            for _ in range(run.num(4, 7))
        ]

    cursor, rows = run.hex(10), page()
    chat.act(
        "The first page.", tool("list_mails", {"folder": box}, {"items": page(), "next": cursor})
    )
    for number in run.times(18, 40):
        if number == 1 and way == LOOP:
            run.begin()
        following = cursor if way == LOOP else run.hex(10)
        if way != LOOP:
            rows = page()
        out = {"items": rows, "next": following}
        say = words(
            run, "The next page.|Go on with the next page.|There are more.|More mails:", quiet=0.5
        )
        args: Json = {"folder": box, "cursor": cursor}
        if way == "watching":
            args = {"folder": box, "unread": True}
            say = words(
                run, "What is new?|The next unread ones.|Those are answered now. More?", quiet=0.5
            )
        chat.act(say, tool("list_mails", args, out))
        cursor = following
    chat.say("There are many mails." if way == LOOP else "Those without an answer are listed.")


@half.template("no-permission", "anthropic-mcp openai-agents langgraph", "sharing", "compacted")
def forbidden(run: Run, way: str) -> None:
    """A folder may not be shared; the model tries with each role and back again."""
    chat = talk(run, way, "You have the tools of the drive.")
    folder, mail = f"1{run.hex(18)}", f"{person(run).replace(' ', '.').lower()}@example.com"
    shared: list[str] = []
    if way == LOOP:
        chat.user(
            f"Share the folder {matter(run)} ({folder}) with {mail} so that they can edit it."
        )
        chat.summary = lambda: f"{folder} is to be shared with {mail}. It was refused (403) so far."
    else:
        chat.user("Share each of the folders of the projects with its lead; see the table.")
        chat.summary = lambda: f"Shared so far: {', '.join(shared)}. The rest remains."
    _prepare(run, chat)
    for number in run.times(20, 30):
        if number == 4 and way == LOOP:
            run.begin()
        where = folder if way == LOOP else f"1{run.hex(18)}"
        whom = mail if way == LOOP else f"{person(run).replace(' ', '.').lower()}@example.com"
        role = run.pick("writer", "editor", "reader", "commenter", "writer")
        fault = {
            "code": 403,
            "message": "The user does not have sufficient permissions",
            "id": folder,
        }
        out: object = {"error": fault}
        if way != LOOP and run.chance.random() < 0.85:
            shared.append(whom)
            out = {"id": f"perm_{run.hex(8)}", "role": role, "emailAddress": whom}
        elif way != LOOP:
            out = {"error": fault | {"id": where}}
        say = words(
            run,
            after(number, "Permission denied.|403 again.|It was refused.|Hmm, not allowed.|")
            if way == LOOP
            else f"Now {whom.split('@')[0]}.|Next.|",
            "Let me try another role.|Try once more.|Maybe without a notification.|Share it as "
            "writer."
            if way == LOOP
            else "",
        )
        if way == LOOP and run.chance.random() < 0.2:
            have = {"permissions": [{"role": "reader", "type": "user", "id": "me"}]}
            chat.act(say, tool("drive_list_permissions", {"file_id": where}, have))
            continue
        args = {"file_id": where, "email": whom, "role": role, "notify": run.pick(True, False)}
        chat.act(say, tool("drive_share", args, out, code=int("error" in str(out)[:9])))
    chat.say("I have no right to share it." if way == LOOP else "All folders are shared.")
