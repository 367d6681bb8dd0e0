"""Data analysis in notebooks and databases, and competitions of machine learning."""

from __future__ import annotations

from bench.loops.field.cast import Act, tool
from bench.loops.field.run import LOOP, Chat, Run
from bench.loops.field.seventh.common import after, half, person, snake, talk, words


def _cell(code: str, out: str, failed: int = 0, takes: float = 1.5) -> Act:
    return tool("execute_cell", {"code": code}, out, failed, takes)


def _load(run: Run, chat: Chat, file: str, columns: list[str]) -> None:
    """Load a table and look at it: each cell shows something else."""
    rows = run.num(4_000, 900_000)
    doings = [
        (f"import pandas as pd\ndf = pd.read_csv('{file}')\ndf.shape", f"({rows}, {len(columns)})"),
        ("df.columns.tolist()", str(columns)),
        ("df.head(3)", "\n".join(" ".join(run.hex(4) for _ in columns) for _ in range(3))),
        ("df.isna().sum()", "\n".join(f"{one:20}{run.num(0, 900)}" for one in columns)),
        (
            f"df['{columns[1]}'].describe()",
            f"count {rows}\nmean  {run.dec(2, 90)}\nstd   {run.dec(0.4, 9)}\nmin   {run.dec(0, 1)}",
        ),
        ("df.duplicated().sum()", str(run.num(0, 99))),
        (
            f"df.groupby('{columns[0]}').size().head()",
            f"{run.hex(3)}  {run.num(3, 99)}\n{run.hex(3)}  4",
        ),
    ]
    for code, out in doings[: run.num(4, 7)]:
        chat.act(
            words(run, "Let me load it.|Now the columns.|A first look.|And this.|"),
            _cell(code, out),
        )


def _trace(kind: str, text: str, line: str) -> str:
    return (
        "---------------------------------------------------------------------------\n"
        f"{kind}                                  Traceback (most recent call last)\n"
        f"Cell In[*], line 1\n----> 1 {line}\n\n{kind}: {text}"
    )


@half.template("same-failure", "langgraph gemini-api openhands", "columns models", "whole", "hard")
def missing_column(run: Run, way: str) -> None:
    """A column is not in the table; cells with the name in the same few spellings fail."""
    chat = talk(run, way, "You have a Jupyter kernel.")
    columns = [snake(run).split("_")[1] + f"_{n}" for n in range(run.num(6, 9))]
    file = f"{snake(run)}.csv"
    gone = run.pick("Order Date", "Cust ID", "Churned", "Net Sales")
    chat.user(
        f"What is the average per month by '{gone}' in {file}?"
        if way == LOOP
        else f"Try sets of features of {file} for the target, one after the other, and note the "
        "scores of each; I will choose."
        if way == "models"
        else f"Describe each of the {run.num(40, 60)} columns of {file}: type, outliers, "
        f"distribution."
    )
    _load(run, chat, file, columns)
    spellings = [
        gone,
        gone.lower(),
        gone.replace(" ", "_"),
        gone.upper(),
        gone.lower().replace(" ", "_"),
    ]
    for number in run.times(19, 29):
        if number == len(spellings) and way == LOOP:
            run.begin()
        if way == LOOP:
            name = spellings[number] if number < len(spellings) else run.pick(*spellings)
            code = run.pick(
                f"df['{name}'].mean()",
                f"df.groupby('{name}').mean(numeric_only=True)",
                f"df['{name}'] = pd.to_datetime(df['{name}'])",
                f"df[['{name}']].dropna().describe()",
            )
            say = words(
                run,
                after(
                    number,
                    "A KeyError.|The column has another name, it seems.|Hmm, the name.|Not found.|",
                ),
                f"Let me try '{name}'.|Perhaps in another spelling.|Another way to get at it.|"
                f"Again.",
            )
            chat.act(say, _cell(code, _trace("KeyError", f"'{name}'", code.split("\n")[0]), 1))
        elif way == "columns":
            name = f"{snake(run)}_{number}"
            out = f"dtype float64, {run.num(0, 60)} outliers, skew {run.dec(-2, 4)}"
            say = words(run, f"Now {name}.|Next column.|", quiet=0.4)
            chat.act(say, _cell(f"describe_column(df, '{name}')", out))
        else:
            name, depth = snake(run), run.num(2, 12)
            code = f"cv(GradientBoosting(max_depth={depth}, seed={number}), feats='{name}')"
            good = run.chance.random() < 0.85
            out = f"fold scores {[run.dec(0.6, 0.9, 3) for _ in range(3)]}"
            if not good:
                out = _trace("ValueError", f"Input {name} contains NaN.", code)
            say = words(run, "Another set of features.|Noted.|Next set.|", quiet=0.3)
            chat.act(say, _cell(code, out, int(not good), 30))
    chat.say("The column does not exist." if way == LOOP else "The notebook has it all.")


@half.template("dying-kernel", "responses-kept anthropic-mcp", "chunks", "whole", "easy")
def out_of_memory(run: Run, way: str) -> None:
    """The kernel dies at the same cell; it is started anew, and the cell is run again."""
    chat = talk(run, way, "You have a Jupyter kernel with 4 GB.")
    file = f"{snake(run)}.parquet"
    chat.user(f"Make features of {file} (31 GB), train a model, and write submission.csv.")
    columns = [f"f{number}" for number in range(run.num(5, 8))]
    _load(run, chat, f"sample_{file}", columns)
    loads = (
        f"df = pd.read_parquet('{file}')",
        f"import pandas as pd\ndf = pd.read_parquet('{file}', engine='pyarrow')",
        f"df = pd.read_parquet('{file}').astype('float32')",
    )
    dead = f"DeadKernelError: Kernel died (exit code -9). Restart it to go on. pid {{}}, {file}"
    for number in run.times(11, 15):
        if number == 2 and way == LOOP:
            run.begin()
        if way == LOOP:
            chat.act(
                words(
                    run,
                    after(
                        number,
                        "The kernel died.|It needs a restart.|Out of memory, perhaps.|The "
                        "kernel is "
                        "gone.",
                    ),
                    "Let me restart it.|Restart.|A fresh start may help.",
                ),
                tool("restart_kernel", {}, f"Kernel {run.hex(8)} started."),
            )
            say = words(run, "Load the data again.|Now it should fit.|Run the cell again.|")
            chat.act(say, _cell(run.pick(*loads), dead.format(run.num(200, 9_000)), 1, 60))
        else:
            code = f"part = next(batches)  # {number}\nfeats.append(make(part))"
            out = f"batch {number}: {run.num(90_000, 99_999)} rows, RSS {run.dec(1.1, 3.4)} GB"
            chat.act(words(run, "The next batch.|Fits.|", quiet=0.4), _cell(code, out, 0, 20))
            out = f"logloss {run.dec(0.3, 0.5, 5)} after {number + 1} batches"
            chat.act(
                words(run, "Update the model.|", quiet=0.4),
                _cell("model.partial_fit(feats[-1])", out),
            )
    chat.say("The file is too large." if way == LOOP else "submission.csv is written.")


@half.template("empty-query", "gemini-api anthropic-mcp langgraph", "months tenants", "trimmed")
def no_rows(run: Run, way: str) -> None:
    """A query has no rows, as the status is spelt in another way; its like are sent again."""
    chat = talk(run, way, "You have read access to the warehouse by the tool run_sql.")
    table, region = f"{snake(run)}s", run.pick("EMEA", "APAC", "LATAM", "Nordics")
    status = run.pick("completed", "shipped", "paid", "active")
    chat.user(
        f"What was the revenue of {status} orders in {region} in the last quarter ({table})?"
        if way == LOOP
        else f"I need the revenue in {table} for each month since 2019, each tenant and each "
        f"region."
    )
    for _ in run.times(4, 7):
        name = snake(run)
        chat.act(
            words(run, f"What is in {name}?|The schema first.|"),
            tool(
                "run_sql",
                {"query": f"SELECT column_name FROM information_schema.columns WHERE t='{name}'"},
                {
                    "rows": [[snake(run)] for _ in range(run.num(2, 7))],
                    "elapsed_ms": run.num(8, 90),
                },
            ),
        )
    wheres = [
        f"status = '{status}'",
        f"status = '{status.upper()}'",
        f"lower(status) = '{status}'",
        f"status ILIKE '{status}%'",
        f"status IN ('{status}', '{status.capitalize()}')",
    ]
    for number in run.times(19, 29):
        if number == 5 and way == LOOP:
            run.begin()
        elapsed = run.num(9, 400)
        if way == LOOP:
            where = wheres[number] if number < 5 else run.pick(*wheres)
            shape = run.pick("SUM(amount)", "COUNT(*) AS n, SUM(amount)", "region, SUM(amount)")
            group = " GROUP BY region" if "region" in shape else f" AND region = '{region}'"
            query = f"SELECT {shape} FROM {table} WHERE {where}{group}"
            rows: list[object] = []
            say = words(
                run,
                after(
                    number,
                    "No rows.|The result is empty.|Nothing for this filter.|Hmm, empty again.|",
                ),
                "Let me relax the filter.|Perhaps the case matters.|Let me group instead.|Retry.",
            )
        else:
            month = f"20{19 + number // 12}-{number % 12 + 1:02}"
            firm = f"{person(run).split()[1]}_{run.num(100, 999)}"
            key = f"month = '{month}'" if way == "months" else f"tenant = '{firm}'"
            query = f"SELECT region, SUM(amount) FROM {table} WHERE {key} GROUP BY region"
            rows = [[run.pick("EMEA", "APAC"), run.dec(900, 90_000)] for _ in range(run.num(0, 3))]
            say = words(run, f"{key.split()[2]}.|Next.|", quiet=0.4)
        out = {"rows": rows, "row_count": len(rows), "elapsed_ms": elapsed}
        chat.act(say, tool("run_sql", {"query": query}, out))
    chat.say("There is no such revenue." if way == LOOP else "See the table.")
