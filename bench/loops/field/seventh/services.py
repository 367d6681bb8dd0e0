"""Customer service: tools, a policy, and a user who answers."""

from __future__ import annotations

from bench.loops.field.cast import tool
from bench.loops.field.run import LOOP, Chat, Run
from bench.loops.field.seventh.common import (
    FIRST,
    LAST,
    goods,
    half,
    matter,
    person,
    talk,
    words,
)
from bench.loops.field.wire import Json

_POLICY = (
    "You are a customer service agent. Follow the policy. Make one tool call at a time, or answer "
    "the user, not both.\n<policy>\nConfirm the identity of the user first. List what you will do "
    "and obtain a yes before you change the database. {more} Hand over to a human only if the "
    "request is out of scope.\n</policy>"
)


def _open(run: Run, way: str, more: str, wish: str) -> tuple[Chat, str, str]:
    """Begin a talk, with the identity of the user confirmed."""
    chat = talk(run, way, _POLICY.format(more=more), calm=way == LOOP)
    first, last = run.pick(*FIRST.split()), run.pick(*LAST.split())
    user = f"{first}_{last}_{run.num(1000, 9999)}".lower()
    chat.user(run.mix("Hi,|Hello!|Good morning.|Hey there,", [wish]))
    chat.say(
        run.mix(
            "I can help with that.|Of course.|Happy to help.", "May I have your user id, please?"
        )
    )
    chat.user(run.mix("Sure, it's|It is|My id:", [f"{user}."]))
    details: Json = {
        "name": {"first_name": first, "last_name": last},
        "dob": f"19{run.num(55, 99)}",
    }
    details["email"] = f"{user}@example.com"
    details["payment_methods"] = {f"credit_card_{run.num(1_000_000, 9_999_999)}": {"brand": "visa"}}
    chat.act("", tool("get_user_details", {"user_id": user}, details))
    return chat, user, next(iter(details["payment_methods"]))


def _flight(run: Run) -> Json:
    ports = run.some(("JFK", "SEA", "ORD", "DFW", "MIA", "LAX", "BOS", "DEN"), 2)
    return {
        "flight_number": f"HAT{run.num(10, 310):03}",
        "origin": ports[0],
        "destination": ports[1],
        "date": f"2027-01-{run.num(16, 31)}",
        "price": run.num(61, 480),
    }


def _code(run: Run) -> str:
    return "".join(run.pick(*"ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(6))


@half.template("rejected-call", "langgraph anthropic-mcp openai-agents", "reservations offers")
def airline_change(run: Run, way: str) -> None:
    """A change of flights is refused by the tool for one reason; it is sent again and again."""
    wish = {
        LOOP: "I need to move my return flight one day later.",
        "reservations": "I have to move all the trips of my team by a day, eleven reservations.",
        "offers": "I want to get home on any other day, let's see what there is.",
    }
    chat, user, card = _open(run, way, "Basic economy cannot be changed.", wish[way])
    code, flight = _code(run), _flight(run)
    cabin = run.pick("economy", "business")
    chat.act(
        "",
        tool(
            "get_reservation_details",
            {"reservation_id": code},
            {"reservation_id": code, "user_id": user, "cabin": cabin, "flights": [flight]},
        ),
    )
    error = run.pick(
        "Error: payment method not found",
        "Error: not enough seats on flight {}",
        "Error: flight {} not available on date {}",
    ).format(flight["flight_number"], flight["date"])
    asks = (
        "Yes, please go ahead.|Yes.|Sure, do it.|Please try that again.|OK, and now?|yes, use the "
        "card on file"
    )
    for number in run.times(9, 13) if way == LOOP else run.times(10, 14):
        if way == LOOP and number == 2:
            run.begin()
        where = code
        this = flight if way == LOOP else _flight(run)
        if way == "offers":
            query = {"origin": flight["origin"], "destination": flight["destination"]}
            query["date"] = f"2027-01-{10 + number}"
            found = [_flight(run) | query for _ in range(run.num(0, 3))]
            chat.act(words(run, "", quiet=0.6), tool("search_direct_flight", query, found))
            offer = f"{found[0]['flight_number']} for ${found[0]['price']}" if found else "nothing"
            chat.say(
                run.mix([f"On {query['date']} there is {offer}."], "Shall I look at the next?|")
            )
            chat.user(
                run.mix("Too early, what about the day after?|Hm, the next day?|And after that?")
            )
            continue
        again = "Let me try that again.|Once more." if way == LOOP and number else ""
        method = run.pick(card, card.replace("credit_card", "card"), card) if way == LOOP else card
        args = {"reservation_id": where, "cabin": cabin, "payment_id": method}
        flights = [{"flight_number": this["flight_number"], "date": this["date"]}]
        out: object = error if way == LOOP else {"reservation_id": where, "flights": [this]}
        chat.act(
            words(run, "I'll update it now.|One moment.|" + again, quiet=0.5),
            tool("update_reservation_flights", args | {"flights": flights}, out, takes=1.1),
        )
        if way == LOOP and run.chance.random() < 0.35:
            chat.act(
                "",
                tool(
                    "get_reservation_details",
                    {"reservation_id": code},
                    {"reservation_id": code, "user_id": user, "cabin": cabin, "flights": [flight]},
                ),
            )
        if way == LOOP:
            chat.say(
                run.mix(
                    "I apologise, there was a problem with the update.|Sorry, that did not go "
                    "through.|It seems that the system refused the change.",
                    f"I will try again with {method}.|Shall I try once more?|Do you confirm that I "
                    "should proceed (yes/no)?",
                )
            )
            chat.user(run.mix(asks))
        else:
            chat.say(
                run.mix([f"{where} is changed to {this['date']}."], "What is the next one?|Next?")
            )
            code = _code(run)
            chat.user(run.mix("Great. The next is|Next:|Then", [f"{code}, same again."]))
    chat.say("Is there anything else that I can do for you?")


_KINDS = ("steel", "glass", "folding", "insulated", "slim", "sport", "enamel", "copper")
_SETTINGS = (
    "Wi-Fi|Wi-Fi calling|VPN|roaming|MMS|backup|data saver|eSIM|voicemail|the ringtone|the screen "
    "lock|the fingerprint|dark mode|the keyboard|the time zone|the alarm|Bluetooth|the hotspot|the "
    "emergency contact|NFC|location|the camera|the mail account|the calendar|two-step sign-in|the "
    "wallpaper|the font size|automatic updates|the calling card|the spam filter"
)
_STEPS = (
    ("check_network_status", "Airplane Mode: OFF, SIM Card: ACTIVE, Cellular: CONNECTED, Data: {}"),
    ("toggle_airplane_mode", "Airplane Mode is now OFF. Status bar: {} signal"),
    ("toggle_data", "Mobile Data is now ON. Status bar: {}"),
    ("reset_apn_settings", "APN settings will reset at reboot. Status: {}"),
    ("reboot_device", "Device rebooted. Status bar: {}"),
    ("run_speed_test", "Speed test failed: {}"),
)


@half.template(
    "circular-advice", "openai-agents autogen responses-kept", "guide lines", "whole", "hard"
)
def no_mobile_data(run: Run, way: str) -> None:
    """A user without mobile data is led through the same five steps, round after round."""
    wish = {
        LOOP: "My mobile data does not work, I can not load any page.",
        "guide": "I have a new phone and want to go through everything in its setup with you.",
        "lines": "Mobile data is off on all of our company's lines; I have their phones here.",
    }
    chat, _, _ = _open(run, way, "Guide the user step by step.", wish[way])
    line = f"555-{run.num(100, 999)}-{run.num(1000, 9999)}"
    state = run.pick("No internet connection", "No Connection", "Data: disabled (roaming)")
    chat.act(
        "",
        tool(
            "get_details_by_id",
            {"id": f"L{run.num(1000, 1999)}"},
            {"phone_number": line, "status": "Active", "data_used_gb": run.dec(0.2, 9)},
        ),
    )
    sayings = (
        "Please {} and tell me what the phone shows.|Could you {} now?|Let's {} next, please.|"
        "Thank you. Next, please {}.|I see. Let us {}, that often helps."
    )
    settings = run.some(_SETTINGS.split("|"), 26)
    for number in run.times(18, 26):
        if way == LOOP:
            name, shown = _STEPS[number % 6 if number < 6 else run.num(0, 5)]
            if number == 6:
                run.begin()
            step, reply = name.replace("_", " "), shown.format(state)
        elif way == "guide":
            kind = settings[number]
            step, reply = (
                f"set {kind}",
                f"{kind} is {run.pick('on', 'off', 'set', 'as you said')} now",
            )
        else:
            owner = person(run)
            step = f"reset the phone of {owner}"
            reply = f"{owner}'s phone shows {run.pick('4G', '5G')}, {run.dec(3, 90)} Mbps"
        how = sayings if way == LOOP else sayings.rsplit("|", 1)[0]
        chat.say(run.pick(*how.split("|")).format(step))
        moods = "OK, did it.|Done.|Right.|Okay, one second... done.||Sure."
        if way == LOOP and number > 6:
            moods += "|I did that already, but fine.|Again? OK."
        end = "It still does not work.|Still nothing.|" if way == LOOP else ""
        chat.user(run.mix(moods, [f"{reply}."], end).strip())
        if run.chance.random() < 0.3 and way == "lines":
            new = f"L{run.num(2000, 2999)}"
            chat.act("", tool("refuel_data", {"line_id": new, "gb": 2}, {"ok": True, "line": new}))
    chat.say("Thank you for your patience.")


@half.template(
    "same-lookup", "langgraph responses-kept autogen", "family disputes", "whole", "easy"
)
def unknown_customer(run: Run, way: str) -> None:
    """A customer is not found; the bank's agent asks for the same facts and looks again."""
    chat = talk(run, way, _POLICY.format(more="Never give out a balance before that."))
    name, year = person(run), run.num(1955, 2001)
    postal = f"{run.num(10_000, 99_999)}"
    wishes = {
        LOOP: "Hi, I'd like to know why my card was declined.",
        "family": "Hello, we are a club, and each of us wants a new card. We are all on the line.",
        "disputes": "Hi, my card was copied, there are many bookings that I want to dispute.",
    }
    chat.user(wishes[way])
    chat.say("Please tell me your name, date of birth and postal code.")
    chat.user(f"{name}, born {year}-{run.num(1, 12):02}-{run.num(1, 28):02}, {postal}.")
    if way == "disputes":
        args = {"name": name, "postal_code": postal}
        chat.act("", tool("find_customer", args, {"customer_id": f"C{run.num(1000, 9999)}"}))
    for number in run.times(10, 14):
        if number == 3 and way == LOOP:
            run.begin()
        if way == "disputes":
            amount = run.dec(4, 900)
            shop = f"{person(run).split()[1]} {run.pick('Ltd', 'Shop', 'Store', 'GmbH')}"
            args = {"transaction_id": f"T{run.hex(8)}", "reason": "not authorised"}
            chat.act(
                "", tool("open_dispute", args, {"dispute": f"D{run.hex(6)}", "amount": amount})
            )
            chat.say(
                run.mix(
                    [f"The {amount} EUR at {shop} are disputed."], "Which is the next one?|Next?"
                )
            )
            chat.user(run.mix("The one at|Then", [f"{matter(run)}, {run.dec(3, 400)} EUR."]))
            continue
        who, place = name, postal
        found: object = {"error": "customer not found", "matches": 0}
        if way == "family":
            found = {"customer_id": f"C{run.num(1000, 9999)}", "name": who}
        style = run.pick(who, who.upper(), who.lower()) if way == LOOP else who
        chat.act("", tool("find_customer", {"name": style, "postal_code": place}, found))
        if way == LOOP:
            chat.say(
                run.mix(
                    "I could not find you with that.|I'm sorry, there is no such customer.|Hm, our "
                    "system has no match.",
                    "Could you please give me your name and postal code again?|Can you confirm "
                    "your "
                    "postal code?|Please spell your full name.",
                )
            )
            chat.user(
                run.mix(
                    "As I said:|Again,|It is still|Sure,|",
                    [f"{name}, {postal}.", f"{name}. {postal}.", f"{postal}, {name}"],
                )
            )
        else:
            chat.act(
                "", tool("order_card", {"customer": who}, {"card": f"**** {run.num(1000, 9999)}"})
            )
            chat.say(run.mix([f"The card for {who} is ordered."], "Who is next?|Next, please."))
            name, postal = person(run), f"{run.num(10_000, 99_999)}"
            chat.user(run.mix("Me,|Hi,|Then me:", [f"{name}, {postal}."]))
    chat.say("Thank you for calling.")


@half.template("finished-task", "anthropic-mcp langgraph", "orders variants", "whole")
def shop_exchange(run: Run, way: str) -> None:
    """The exchange is made; the agent looks at the order and confirms it, again and again."""
    wish = {
        LOOP: "I want to exchange the lamp of my order for the black one.",
        "orders": "I want to send back several things; I have the order numbers here.",
        "variants": "I look for a water bottle and can't decide; tell me about each one.",
    }
    chat, user, card = _open(run, way, "An order can be exchanged once.", wish[way])
    order = f"#W{run.num(1_000_000, 9_999_999)}"
    item, new = run.num(1_000_000_000, 9_999_999_999), run.num(1_000_000_000, 9_999_999_999)
    state = {"order_id": order, "status": "exchange requested", "exchange_new_items": [str(new)]}
    if way == LOOP:
        before = state | {"status": "delivered", "user_id": user}
        chat.act("", tool("get_order_details", {"order_id": order}, before))
        chat.say(f"I will exchange item {item} for {new} with {card}. Is that right?")
        chat.user("Yes")
        args = {"order_id": order, "item_ids": [str(item)], "new_item_ids": [str(new)]}
        chat.act("", tool("exchange_delivered_order_items", args | {"payment": card}, state))
        chat.act("", tool("get_order_details", {"order_id": order}, state))
        run.begin()
    for number in run.times(18, 26):
        if way == LOOP:
            say = words(
                run,
                "The exchange was requested.|The exchange is in place.|It all looks right.|",
                "Let me check the order once more.|I'll verify that before I answer.|Let me "
                "confirm "
                "it with the system.|",
                quiet=0.3,
            )
            if number % 7 == 6:
                error = "Error: non-delivered order cannot be exchanged"
                chat.act(
                    say, tool("exchange_delivered_order_items", args | {"payment": card}, error)
                )
            else:
                chat.act(say, tool("get_order_details", {"order_id": order}, state))
        elif way == "orders":
            which = f"#W{run.num(1_000_000, 9_999_999)}"
            args = {"order_id": which}
            status = run.pick("delivered", "delivered", "pending")
            shown = {"order_id": which, "status": status, "items": [{"name": goods(run)}]}
            chat.act("", tool("get_order_details", args, shown))
            if status == "delivered" and number % 2:
                done = {"order_id": which, "status": "return requested"}
                chat.act("", tool("return_delivered_order_items", args, done))
        else:
            which = f"{run.num(1_000_000_000, 9_999_999_999)}"
            item_facts: Json = {
                "item_id": which,
                "name": f"{run.pick(*_KINDS)} water bottle, {run.dec(0.3, 2)} l",
                "price": run.dec(12, 60),
            }
            chat.act("", tool("get_item", {"item_id": which}, item_facts))
    chat.say("Your exchange is requested. You will get a mail." if way == LOOP else "That is all.")


def _wish(run: Run) -> str:
    """Return what a user wants changed."""
    street = f"{run.num(1, 180)} {person(run).split()[1]} Street"
    return run.pick(
        f"my address to {street}",
        f"my mail to {person(run).replace(' ', '.').lower()}@example.com",
        f"my tariff to {run.pick('S', 'M', 'L', 'XL')} from {run.num(1, 28)} March",
        f"my limit to {run.num(2, 90)} GB",
        f"my due date to the {run.num(1, 28)}th",
        f"my second line to {person(run)}",
        f"my password hint to {matter(run)}",
    )


@half.template("goodbye", "autogen crewai", "one-more", "whole", "easy")
def endless_farewell(run: Run, way: str) -> None:
    """All is done, and the two thank one another without an end."""
    chat, user, _ = _open(run, way, "Be polite.", "I would like to have a copy of my bill.")
    month = run.pick("March", "April", "May", "June", "July")
    file = {"user": user, "month": month, "file": f"bill-{run.hex(6)}.pdf"}
    chat.act("", tool("send_bill", {"user_id": user, "month": month}, file))
    chat.say(f"I have sent the bill of {month} to the address that we have.")
    asked = _wish(run)
    if way == LOOP:
        chat.user("Got it, thank you!")
    else:
        chat.user(f"Thanks, got it. I have a list of other things here. First {asked}.")
    for number in run.times(14, 22):
        if number == 1 and way == LOOP:
            run.begin()
        if way == LOOP:
            chat.say(
                run.mix(
                    "You're welcome!|You are very welcome.|My pleasure!|Glad that I could help!|"
                    "Any time!",
                    "Have a great day!|Have a wonderful day.|Take care!|Is there anything else "
                    "I can "
                    "help you with?|",
                )
            )
            chat.user(
                run.mix(
                    "Thank you!|Thanks again.|You too!|No, that's all.|Great, thanks.|Have a "
                    "nice day!",
                    "Bye!|Goodbye.||Take care.",
                )
            )
        else:
            if run.chance.random() < 0.2:
                args = {"query": asked.split()[1], "user_id": user}
                rule = f"KB-{run.num(100, 999)}: may be changed {run.num(2, 9)} times a year."
                chat.act("", tool("search_kb", args, rule))
            args = {"user_id": user, "what": asked}
            chat.act("", tool("change_setting", args, {"ok": True, "ref": run.hex(6)}))
            chat.say(run.mix([f"Done: {asked}."], "Anything else?|What else can I do?"))
            asked = _wish(run)
            chat.user(run.mix("Yes:|Thanks! Then|And", [f"{asked}."]))
    chat.say("Goodbye!")


@half.template(
    "circular-check", "openai-agents langgraph anthropic-mcp", "questions", "trimmed", "hard"
)
def policy_again(run: Run, way: str) -> None:
    """The agent looks up the refund rule and the order in turn, and never answers."""
    topics = list(dict.fromkeys(matter(run) for _ in range(90)))
    wish = "I want my money back for a late parcel."
    if way != LOOP:
        wish = (
            "I run a forum for customers and have a long list of questions on your rules. First: "
            f"{', '.join(topics[:3])}?"
        )
    chat, user, _ = _open(run, way, "Rules are in the knowledge base.", wish)
    order = f"#W{run.num(1_000_000, 9_999_999)}"
    rule = (
        f"KB-{run.num(100, 999)} Refunds: a parcel that is more than {run.num(5, 14)} days late is "
        "refunded to the method of payment. The agent has to confirm the date of delivery."
    )
    asked = ("late delivery refund", "refund policy", "refund late parcel", "refund rules delay")
    facts = {"order_id": order, "status": "delivered", "user_id": user, "days_late": run.num(2, 30)}
    if way == LOOP:
        chat.act("", tool("get_order", {"order_id": order}, facts))
        chat.act("", tool("search_kb", {"query": asked[0]}, rule))
        run.begin()
    for number in run.times(18, 28):
        if way != LOOP:
            topic = topics[number]
            days = run.num(2, 60)
            text = f"KB-{run.num(100, 999)} {topic}: {matter(run)}, within {days} days."
            chat.act(words(run, "", quiet=0.5), tool("search_kb", {"query": topic}, text))
            if number % 3 == 2:
                chat.say(f"For the {topic} you have {days} days; the others are as you wrote.")
                following = ", ".join(topics[number + 1 : number + 4])
                chat.user(run.mix("Next:|OK, and|Good. What about", [f"{following}?"]))
            continue
        say = words(
            run,
            "I have to be sure that the refund is allowed.|The policy has to be checked first.|"
            "Let me look at the rule.|I need the order to decide.|Before I answer,",
            "let me consult the knowledge base.|I'll check the details.|one more look.|",
        )
        if number % 3 == 1:
            chat.act(say, tool("get_order", {"order_id": order}, facts))
        elif number % 3 == 2 and run.chance.random() < 0.5:
            chat.act(say, tool("think", {"thought": f"Is {order} late enough? Check."}, ""))
        else:
            chat.act(say, tool("search_kb", {"query": run.pick(*asked)}, rule))
    chat.say("Let me check that for you.")
