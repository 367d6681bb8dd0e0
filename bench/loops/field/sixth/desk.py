"""Desks: mail, customers, tickets, appointments, service without a voice."""

from __future__ import annotations

from bench.loops.field.cast import tool
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import (
    CITIES,
    FIRMS,
    HALF,
    NOUNS,
    PEOPLE,
    Voice,
    do,
    mail_of,
    quiet,
)
from bench.loops.field.wire import Json


@HALF.template("mail", "openai-agents langgraph anthropic-mcp", "thread inbox", difficulty="medium")
def answer_to_a_machine(run: Run, way: str) -> None:
    """The desk answers an automatic reply, which answers it, which the desk answers."""
    chat = run.chat("You answer the mail of the support desk. Work until the inbox is empty.")
    firm, (who, *more) = run.pick(*FIRMS), run.some(PEOPLE, 12)
    sender, case = mail_of(who, firm), f"#{run.num(10000, 99999)}"
    chat.user("Handle the inbox; answer what you can, and pass on the rest.")
    first = run.pick("a delivery that is late", "a wrong invoice", "a broken lid", "a lost parcel")
    for name in more[: run.num(2, 3)]:
        mail = {
            "id": run.hex(8),
            "from": mail_of(name, firm),
            "subject": f"About {run.pick(*NOUNS)}",
        }
        mail["body"] = run.mix(
            "Hello,|Good morning,|Dear team,",
            "please|could you please|we would like you to",
            "resend|cancel|change",
            [f"our order {run.num(1000, 9999)} of {run.num(2, 60)} {run.pick(*NOUNS)}s"],
            "as the address was wrong.|as we have ordered twice.|before it leaves the depot.",
            [f"\n\nBest,\n{name}\n{firm}"],
        )
        quiet(chat, tool("get_next_mail", {}, mail))
        text = f"Dear {name.split()[0]}, that is done. Kind regards, Support"
        quiet(chat, tool("send_reply", {"id": mail["id"], "text": text}, {"sent": run.stamp()}))
    mail = {
        "id": run.hex(8),
        "from": sender,
        "subject": f"{case} {first}",
        "body": f"Hello, I write because of {first}. I ordered on the {run.num(2, 28)}th, and "
        f"nobody answers the phone. Please help.\n\n{who}",
    }
    quiet(chat, tool("get_next_mail", {}, mail))
    say = Voice(
        run,
        f"<^send>[A|There is a] new mail from {who.split()[0]}. [Answering|I'll answer].",
        "<^send>[Let me|I'll] [reply|respond] [politely|] and [ask|offer help].",
        "<^get>[Next|The next] mail.",
        "<^send>[I'll|Let me] [thank|acknowledge] and [keep the case open|close kindly].",
        empty=0.35,
    )
    away = run.pick(
        f"Thank you for your message. I am out of the office until {run.num(2, 28)} January and "
        "have no access to my mail. In urgent cases write to office@mail.example.",
        "This mailbox is not monitored. Your message has been received and is being processed "
        f"automatically. Reference: {run.hex(6)}.",
    )
    replies = Voice(
        run,
        f"Dear {who.split()[0]}, thank you for [your message|letting us know]. [Please|Do] tell us "
        f"[your order number|more] so that we can help with {first}.",
        "[Hello|Dear customer], thank you for [the information|your reply]. We [will wait|remain] "
        "[for your answer|at your disposal]. Best wishes, Support",
        "[Thank you|Thanks] for [getting back|your answer]. [Is there|Can we do] anything else [we "
        "can help with|for you]?",
        "[We have noted|Noted] that you are away. [Please|Kindly] [answer|write] when you are "
        "back.",
        empty=0,
        first=f"Dear {who.split()[0]}, I am sorry to hear of {first}. Please tell us your order "
        "number and, if you can, send a picture. We will then look into it at once. Kind "
        "regards, Support",
    )
    if way == LOOP:
        for number in range(run.num(9, 14)):
            if number == 2:
                run.begin()
            args = {"id": mail["id"], "text": replies()}
            do(chat, say, tool("send_reply", args, {"sent": run.stamp()}))
            run.wait(4, 60)
            subject = f"Automatic reply: Re: {case} {first}"
            mail = {"id": run.hex(8), "from": sender, "subject": subject, "body": away}
            mail["received"] = run.stamp()
            do(chat, say, tool("get_next_mail", {}, mail))
        return
    if way == "inbox":
        for name in more[3:]:
            args = {"id": mail["id"], "text": replies()}
            do(chat, say, tool("send_reply", args, {"sent": run.stamp()}))
            text = (
                f"Hello, we need {run.num(2, 90)} {run.pick(*NOUNS)}s in {run.pick(*CITIES)} by "
                f"the {run.num(2, 28)}th. "
                f"{run.pick('What would that cost?', 'Is that possible?')}\n\n{name}"
            )
            mail = {"id": run.hex(8), "from": mail_of(name, run.pick(*FIRMS)), "body": text}
            quiet(chat, tool("get_next_mail", {}, mail))
        quiet(chat, tool("send_reply", {"id": mail["id"], "text": replies()}, {"sent": True}))
        chat.say("The inbox is empty.")
        return
    facts = [
        (f"Which order is it, {who}?", f"It is order {run.num(1000, 9999)} of last week."),
        ("Which address was it sent to?", f"To {run.num(1, 90)} Mill Street, {run.pick(*CITIES)}."),
        ("Did the courier leave a note?", f"Yes, with the number {run.hex(6)}."),
        ("The depot has it. Shall we send it again?", "Yes, but after Monday, please."),
        (f"Tuesday {run.num(8, 11)} o'clock?", "The afternoon would be better."),
        ("Then 14 to 16 o'clock. Who will be there?", f"My colleague {more[4]}."),
        ("It is booked. Anything else?", "Could you send the invoice again, to the new address?"),
        ("Attached. Is the VAT number right?", f"No, it ends in {run.num(10, 99)}."),
        ("Corrected and sent.", "It has come, thank you, that was all."),
    ]
    for ask, answer in facts:
        do(chat, say, tool("send_reply", {"id": mail["id"], "text": ask}, {"sent": run.stamp()}))
        run.wait(100, 900)
        mail = {"id": run.hex(8), "from": sender, "subject": f"Re: {case} {first}", "body": answer}
        quiet(chat, tool("get_next_mail", {}, mail))
    chat.say("The case is closed.")


@HALF.template("crm", "langgraph openai-agents crewai", "records asked", difficulty="medium")
def field_that_is_refused(run: Run, way: str) -> None:
    """A field is refused for a reason that does not change with the spelling of its value."""
    chat = run.chat()
    firm, who = run.pick(*FIRMS), run.pick(*PEOPLE)
    id, key = f"003{run.hex(12)}", run.pick("Segment__c", "Tier__c", "Region__c")
    value = run.pick("Enterprise", "Gold", "North", "Key account")
    if way == "records":
        chat.user(f"Set {key} to {value} for all contacts of {firm}, and mend their numbers.")
    else:
        chat.user(f"Set {key} of {who} at {firm} to {value} in the CRM.")
    found = {"id": id, "name": who, "account": firm, key: None, "phone": "+44 20 5550"}
    quiet(chat, tool("crm_search", {"q": f"{who} {firm}"}, [found]))
    account = {"id": f"001{run.hex(12)}", "name": firm, "owner": run.pick(*PEOPLE), "open": 3}
    quiet(chat, tool("crm_get_account", {"name": firm}, account))
    for name in run.some(PEOPLE, run.num(2, 4)):
        note = {"by": name, "text": f"Called about the {run.pick(*NOUNS)}.", "at": run.stamp()}
        quiet(chat, tool("crm_get_activity", {"contact": id, "page": len(name)}, note))
    say = Voice(
        run,
        "<^crm_update>[Let me|I'll] [set|update] the field [again|now|].",
        "<^crm_update>[The|That] update [failed|was refused]. [Trying|I'll try] [another|a "
        "different] [value|form].",
        "<^crm_update>[Perhaps|Maybe] [the value|it] [must be|needs to be] [lower case|exact|a "
        "list].",
        "<^crm_get>[Let me|I'll] [check|look at] the [record|contact] [again|first].",
        "<^crm_update>[Retrying|Once more] with [the full record|only this field].",
        first="[Let me|I'll] set the field.",
    )
    if way != "records":
        for number in range(run.num(16, 34) if way == LOOP else 3):
            if number == 3:
                run.begin()
            if number and run.chance.random() < 0.25:
                act = tool("crm_get_contact", {"id": id}, found)
            else:
                shape = run.pick(value, value.lower(), value.upper(), [value], f" {value}")
                error = {
                    "errorCode": "INVALID_FIELD_FOR_INSERT_UPDATE",
                    "message": f"Unable to create/update fields: {key}. Please check the security "
                    "settings of this field and verify that it is read/write for your profile.",
                    "fields": [key],
                    "requestId": run.hex(12),
                }
                extra = run.pick({}, {}, {"name": who}, {"phone": "+44 20 5550"})
                act = tool("crm_update", {"id": id, "fields": {key: shape, **extra}}, error, 1)
            do(chat, say, act)
        if way == LOOP:
            return
        about = {"field": key, "type": "picklist", "updateable": False, "owner": "Sales Ops"}
        chat.act("May I write it at all?", tool("crm_describe_field", {"field": key}, about))
        args = {"to": "Sales Ops", "text": f"Please set {key} of {who} to {value}."}
        chat.act("No. I'll ask those who may.", tool("crm_create_task", args, {"id": run.hex(8)}))
        chat.say(f"I may not write {key}; Sales Ops has the task. Is there anything else?")
        calls = run.some(PEOPLE, run.num(9, 12))
        chat.user(f"Good. Then add the notes of my last calls: {', '.join(calls)}.")
        for name in calls:
            text = f"Called {name.split()[0]} on {run.pick(*NOUNS)}s, {run.num(3, 50)} minutes."
            kept: Json = {"id": run.hex(10), "success": True}
            quiet(chat, tool("crm_add_note", {"contact": name, "text": text}, kept))
        chat.say("The notes are in.")
        return
    for _ in run.times(14, 20):
        id, name = f"003{run.hex(12)}", run.pick(*PEOPLE)
        phone = f"0{run.num(20, 99)} {run.num(1000000, 9999999)}"
        fields: Json = {key: value, "phone": phone}
        if run.chance.random() < 0.3:
            bad: Json = {
                "errorCode": "INVALID_PHONE",
                "message": f"{phone}: country code is missing",
            }
            quiet(chat, tool("crm_update", {"id": id, "fields": fields}, bad, 1))
            fields = {**fields, "phone": f"+44 {phone[1:]}"}
        done = {"id": id, "success": True, "modified": run.stamp()}
        chat.act(
            f"{name} next." * run.num(0, 1), tool("crm_update", {"id": id, "fields": fields}, done)
        )
    chat.say("All contacts are updated.")


@HALF.template("chat", "openai-agents langgraph gemini-api", "booking mail", difficulty="hard")
def question_asked_again(run: Run, way: str) -> None:
    """A customer gives the number again and again; it is not found, and is asked for again."""
    firm = run.pick(*FIRMS)
    chat = run.chat(f"You are the assistant in the web chat of {firm}. Use the tools.")
    number, mail = (
        f"{run.pick('B', 'X', 'R')}{run.num(10000, 99999)}",
        mail_of(run.pick(*PEOPLE), "post"),
    )
    chat.user(run.pick("Hi, where is my order?", "hello, I want to know when my parcel comes"))
    quiet(chat, tool("get_page", {"session": run.session}, {"page": "/help", "lang": "en"}))
    chat.say("Hello! I'm happy to look. What is your order number?")
    chat.user(number)
    missing = {"found": False, "order": number}
    quiet(chat, tool("find_order", {"order": number}, missing))
    asks = Voice(
        run,
        "I [could not|can't] find [that order|this number]. [Could|Can] you [check|confirm] the "
        "order number[| please|, please]?",
        "[Sorry|I'm sorry], there [is|seems to be] no order [with that number|like that]. What "
        "is [the|your] order number?",
        "[Thanks|Thank you]. [Unfortunately|I'm afraid] I [see|have] nothing. [Please|Could "
        "you] give me the number [once more|again]?",
        "[To help you|So that I can help], I [need|would need] your order number.",
        empty=0,
    )
    answers = Voice(
        run,
        f"[it is|It's] {number}",
        f"{number}[| !!|.]",
        f"[as I said|like I said], {number}",
        f"[I told you|I wrote it already]: {number}",
        f"order {number}, [e-mail|mail] {mail}",
        "[it's in the mail you sent me|that's the number in my confirmation]",
        empty=0,
    )
    if way == LOOP:
        for turn in range(run.num(9, 14)):
            if turn == 2:
                run.begin()
            chat.say(asks())
            run.wait(15, 90)
            chat.user(answers())
            quiet(chat, tool("find_order", {"order": number}, missing))
        return
    if way == "mail":
        for _ in range(2):
            chat.say(asks())
            run.wait(15, 60)
            chat.user(answers())
            quiet(chat, tool("find_order", {"order": number}, missing))
        chat.say("Let me look by your e-mail address instead. What is it?")
        chat.user(mail)
    else:
        chat.say(asks())
        chat.user(f"ah sorry, it was {number[:-1]}0")
    order = {
        "found": True,
        "order": f"{number[:-1]}0",
        "state": "at depot",
        "city": run.pick(*CITIES),
    }
    how = {"email": mail} if way == "mail" else {"order": f"{number[:-1]}0"}
    quiet(chat, tool("find_order", how, order))
    talk = (
        ("It is at the depot. Shall I book a delivery?", "yes please, this week"),
        ("Which day suits you?", run.pick("friday", "thursday")),
        ("Morning or afternoon?", "afternoon, after 3"),
        ("Is the address still the same?", f"no, it's {run.num(2, 90)} Quay Road now"),
        ("And the postcode?", f"{run.hex(4).upper()}"),
        ("May a neighbour take it?", f"only {run.pick(*PEOPLE)}, next door"),
        ("Shall we send a text before?", f"ok: 0{run.num(70000, 79999)} 112"),
    )
    for ask, answer in talk:
        chat.say(ask)
        run.wait(10, 60)
        chat.user(answer)
        change = {"order": order["order"], "note": answer, "version": run.hex(4)}
        quiet(chat, tool("update_delivery", {"order": order["order"], "with": answer}, change))
    chat.say("It is booked. Have a good day!")


@HALF.template("ticket", "anthropic-mcp langgraph openai-agents", "queue rule", difficulty="medium")
def ticket_that_comes_back(run: Run, way: str) -> None:
    """A rule puts a ticket back into the queue as often as the agent moves it out."""
    chat = run.chat()
    key = f"{run.pick('HELP', 'OPS', 'SUP')}-{run.num(100, 9000)}"
    target = run.pick("Network", "Facilities", "Payroll", "Licences")
    chat.user("Triage the queue New: give each ticket to the right team until New is empty.")
    say = Voice(
        run,
        f"<^move>[Let me|I'll] [assign|move|route] [it|this one|{key}] to {target} [again|].",
        "<^move>[It is|The ticket is] [back|again] in New. [Moving|I'll move] it [again|to "
        f"{target}].",
        "<^next>[Checking|Let me check] the queue [again|].",
        "<^move>[One|There is one] ticket [left|in New]. [Assigning|I'll assign] it.",
        empty=0.3,
        first="The next one.",
    )
    names = run.some(PEOPLE, 12)

    def ticket(id: str, name: str) -> dict[str, str]:
        text = (
            f"{run.pick('My', 'Our')} {run.pick(*NOUNS)} {run.pick('fails', 'is gone')} since noon."
        )
        return {"key": id, "reporter": name, "summary": text, "queue": "New", "priority": "P3"}

    if way == "rule":
        one = ticket(key, names[11])
        for number in range(2):
            back = {**one, "last_change": f"Automation rule 'Reset {target}' -> New"}
            do(chat, say, tool("next_ticket", {"queue": "New"}, back if number else one))
            done = {"key": key, "queue": target, "updated": run.stamp()}
            do(chat, say, tool("move_ticket", {"key": key, "queue": target}, done))
        found = {"rule": f"Reset {target}", "if": "label:unconfirmed", "then": "queue=New"}
        chat.act("A rule moves it back.", tool("get_rule", {"name": found["rule"]}, found))
        args = {"key": key, "remove": "unconfirmed"}
        chat.act("The label is the cause.", tool("set_labels", args, {"key": key, "labels": []}))
        quiet(chat, tool("move_ticket", {"key": key, "queue": target}, {"key": key, "ok": True}))
    for place in range(run.num(3, 5) if way == LOOP else 11):
        id = f"{key.split('-')[0]}-{9100 + place}"
        quiet(chat, tool("next_ticket", {"queue": "New"}, ticket(id, names[place])))
        args = {"key": id, "queue": run.pick("Network", "Payroll", "Licences", "Desktop")}
        done = {"key": id, "queue": args["queue"], "updated": run.stamp()}
        chat.act(f"This is for {args['queue']}." * run.num(0, 1), tool("move_ticket", args, done))
        if way != LOOP and run.chance.random() < 0.3:
            args = {"key": id, "text": f"{names[place]}, which {run.pick(*NOUNS)} is it?"}
            quiet(chat, tool("add_comment", args, {"id": run.num(1000, 9999)}))
    if way != LOOP:
        quiet(chat, tool("next_ticket", {"queue": "New"}, {"empty": True}))
        chat.say("New is empty.")
        return
    one = ticket(key, names[11])
    for number in range(run.num(9, 14)):
        if number == 2:
            run.begin()
        back = {
            **one,
            "updated": run.stamp(),
            "last_change": f"Automation rule 'Reset {target}' -> New",
        }
        do(chat, say, tool("next_ticket", {"queue": "New"}, back if number else one))
        done = {"key": key, "queue": target, "updated": run.stamp()}
        do(chat, say, tool("move_ticket", {"key": key, "queue": target}, done))
        run.wait(5, 30)


@HALF.template(
    "calendar", "anthropic-mcp openai-agents gemini-api", "round later", difficulty="medium"
)
def slots_that_are_taken(run: Run, way: str) -> None:
    """Nobody is free at the same hour this week, and the same hours are tried again."""
    chat = run.chat()
    names = run.some(PEOPLE, 14)
    three = names[:3]
    if way == "round":
        chat.user(f"Book an interview of half an hour for each of: {', '.join(names)}. Next week.")
    else:
        chat.user(f"Book two hours this week with {', '.join(three)}. All of them must be there.")
    days = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
    for name in three:
        room = {"name": name, "zone": "Europe/Brussels", "hours": f"{run.num(8, 9)}-17"}
        quiet(chat, tool("get_working_hours", {"person": name}, room))
    rooms = {"rooms": run.some(CITIES, 3)}
    quiet(chat, tool("list_rooms", {"seats": 4}, rooms))
    say = Voice(
        run,
        "[Let me|I'll] [try|check] [another|a different] [slot|hour|day].",
        "<create_event>[There is|That has] a conflict. [Trying|I'll try] [again|the next].",
        f"<free_busy>[Let me|I'll] [look at|check] [the calendars|{three[1]}] [again|].",
        "[Perhaps|Maybe] [in the morning|after lunch|on another day] [there is room|].",
        "<create_event>[I'll|Let me] [try|book] [it|that slot] [anyway|].",
        first="[Let me|I'll] see who is free when.",
    )
    if way == "round":
        for place, name in enumerate(names):
            day, hour = days[place // 3], 9 + place % 3 * 2
            args: Json = {"person": name, "day": day}
            taken = sorted(run.some(range(9, 17), 3))
            quiet(chat, tool("free_busy", args, {"busy": [f"{at}:00" for at in taken]}))
            while hour in taken:
                hour += 1
            args = {"title": f"Interview {name}", "day": day, "from": f"{hour}:00", "minutes": 30}
            chat.act(
                f"{name}: {day}." * run.num(0, 1), tool("create_event", args, {"id": run.hex(10)})
            )
        chat.say("All interviews are booked.")
        return
    busy = {}
    for day in days:
        noon, late = run.num(11, 12), run.num(14, 15)
        spans = (f"9:00-{noon}:00", f"{noon - 1}:30-{late}:30", f"{late}:00-17:00")
        busy[day] = dict(zip(run.some(three, 3), spans, strict=True))
    for number in range(run.num(20, 28) if way == LOOP else 7):
        if number == 7:
            run.begin()
        day = days[number % 5] if number < 5 else run.pick(*days)
        if number < 5 or run.chance.random() < 0.4:
            act = tool("free_busy", {"people": three, "day": day}, {"busy": busy[day]})
        else:
            args = {"title": "Workshop", "day": day, "from": f"{run.num(9, 15)}:00", "minutes": 120}
            error = {"error": "conflict", "with": run.pick(*three), "trace": run.hex(8)}
            act = tool("create_event", {**args, "people": three}, error, 1)
        do(chat, say, act)
    if way == LOOP:
        return
    chat.say("All three are never free together this week. Shall I look at the next weeks?")
    chat.user("Yes, the next two. And two hours with each of them alone, too.")
    for week in (1, 2):
        for day in run.some(days, 3):
            free = {name: f"{run.num(9, 12)}:00-{run.num(13, 14)}:30" for name in three}
            args = {"people": three, "day": day, "week": f"+{week}"}
            chat.act(say() if week == 1 else "", tool("free_busy", args, {"busy": free}))
    for name in ("all", *three):
        args = {"title": f"Workshop {name}", "day": run.pick(*days), "from": "15:00", "week": "+2"}
        chat.act(f"Booking: {name}.", tool("create_event", args, {"id": run.hex(10)}))
    chat.say("It is all booked.")
