"""Agents that serve customers or run other systems: records, tickets, jobs; errors as JSON."""

import json

from tests.detect.runs import Person, Use, says, together
from tests.harness.steps import case, each, prose, word


def record(number):
    return json.dumps({"order_id": f"#W{number:07}", "status": "delivered", "item": word(number)})


def orders(number, result=None):
    return Use("get_order_details", {"order_id": f"#W{number:07}"}, result or record(number))


def failed(message):
    return json.dumps({"error": {"message": message}})


def job(result):
    return Use("get_task", {"task_id": "t-17"}, result)


LIMITED = "HTTP 429 Too Many Requests: rate limit exceeded, retry after 5 seconds"

QUIET = [
    case(each(orders, times=25), id="records looked up one by one"),
    case(
        each(
            lambda n: Use(
                "modify_item", {"id": n, "name": word(n)}, '{"success": true, "error": null}'
            ),
            times=25,
        ),
        id="a batch of changes, all with the same answer",
    ),
    case(
        each(lambda n: Use("calculate", {"expression": f"{n} * 0"}, "0.0"), times=20),
        id="a calculator whose results are equal",
    ),
    case(
        each(lambda n: job(f'{{"state": "running", "done": {n}}}'), times=25),
        id="a job that gets on",
    ),
    case(
        [*[job('{"state": "running"}')] * 10, job('{"state": "done"}')],
        id="a job that takes its time",
    ),
    case([*[orders(1, LIMITED)] * 6, orders(1)], id="told to come again, six times, then it works"),
    case(
        each(lambda n: Use("send_message", {"to": word(n), "text": "Hello"}, "ok"), times=25),
        id="messages to many",
    ),
    case(
        each(
            orders,
            lambda n: says(f"It is {word(n)}."),
            lambda n: Person("And the next one?"),
            times=12,
        ),
        id="a customer with many questions",
    ),
    case(
        [orders(1), says("Delivered."), Person("Are you sure? Look again.")] * 8,
        id="a customer who has it checked again",
    ),
    case(
        each(
            lambda n: together(
                orders(n), Use("get_user", {"id": word(n)}, json.dumps({"name": prose(n, 2)}))
            ),
            times=15,
        ),
        id="two records a turn",
    ),
    case(
        each(
            lambda n: Use("mcp__tickets__list", {"page": n}, json.dumps([prose(n), prose(n + 1)])),
            times=25,
        ),
        id="tickets page by page",
    ),
    case(
        each(
            lambda n: Use(
                "update_ticket", {"id": n, "labels": [word(n)]}, '{"errors": [], "ok": true}'
            ),
            lambda n: Use("list_open_tickets", {}, json.dumps([prose(n)])),
            times=14,
        ),
        id="one ticket done, then the list that is left",
    ),
]

HONEST = [
    case(
        [
            *each(lambda n: Use("find_user", {"name": word(n)}, "Error: user not found"), times=5),
            Use("find_user", {"email": "a@example.com"}, '{"id": "sara_1"}'),
        ],
        id="five spellings of a name, then the mail address",
    ),
    case(
        [*[orders(1, failed("upstream connect error"))] * 4, orders(1)],
        id="four equal errors, then it works",
    ),
]

LOOPS = [
    case([orders(1)] * 12, 6, id="the same record"),
    case(
        [orders(1, failed("order does not exist"))] * 12, 6, id="the same record that is not there"
    ),
    case(
        each(lambda n: orders(n, failed("permission denied for this account")), times=20),
        9,
        id="denied, whatever is asked for",
    ),
    case(
        each(
            lambda n: Use("book", {"flight": word(n)}, '{"success": false, "reason": "card"}'),
            times=20,
        ),
        9,
        id="success: false, whatever is booked",
    ),
    case(
        each(
            lambda n: Use(
                "call_api", {"path": f"/{word(n)}"}, "request ended with status code 500"
            ),
            times=20,
        ),
        9,
        id="status code 500, whatever is called",
    ),
    case(
        each(
            lambda n: Use("mcp__db__run", {"q": prose(n)}, "MCP error -32603: internal error"),
            times=20,
        ),
        9,
        id="an MCP server that fails",
    ),
    case([job('{"state": "running"}')] * 60, 40, id="a job that never ends"),
    case([orders(1, LIMITED)] * 60, 40, id="told to come again, without end"),
    case(
        each(
            lambda n: Use("create_ticket", {"title": "Refund"}, f'{{"id": "T-{n + 400}"}}'),
            times=12,
        ),
        6,
        id="the same ticket created again and again",
    ),
    case([orders(1), orders(2)] * 10, 8, id="two records in turn"),
    case([says("Goodbye, and have a nice day!")] * 10, 6, id="goodbye"),
]
