"""Names, files and reports that the stories draw from."""

from __future__ import annotations

from random import Random

PROJECTS = "orchard lantern ferry tidepool quarry meadow harbour foundry saddle marten".split()
NOUNS = "invoice session ledger parcel catalog roster quota voucher tenant beacon shipment".split()
VERBS = "parse merge render validate normalise encode resolve refresh schedule collect".split()
PARTS = "store client handler model schema queue router cache writer loader".split()
FIRST = "Amara Jonas Priya Mateus Yuki Hanne Tomasz Leila Oskar Noor Imani Felix".split()
LAST = "Okafor Lindqvist Raman Duarte Sato Bakker Nowak Haddad Berg Aziz Mwangi Roth".split()
CITIES = "Porto Leeds Graz Turku Ghent Malmö Split Nantes Bergen Trieste".split()


def hexes(rng: Random, length: int) -> str:
    """Return so many hexadecimal digits."""
    return f"{rng.getrandbits(4 * length):0{length}x}"


def uuid(rng: Random) -> str:
    """Return an id in the form of a UUID."""
    return "-".join(hexes(rng, length) for length in (8, 4, 4, 4, 12))


def person(rng: Random) -> str:
    """Return a name."""
    return f"{rng.choice(FIRST)} {rng.choice(LAST)}"


def address(name: str, host: str = "example.com") -> str:
    """Return the mail address of a person."""
    return name.lower().replace(" ", ".").replace("ö", "o") + "@" + host


def clock(seconds: float) -> str:
    """Return a time of one day of 2027."""
    seconds = int(seconds) + 9 * 3600
    day = 11 + seconds // 86400
    return f"2027-01-{day:02}T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"


class Code:
    """A repository: its language, files and how its tests report."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.project = rng.choice(PROJECTS)
        self.language = rng.choice(("python", "typescript", "go", "rust"))
        self.nouns = rng.sample(NOUNS, 8)
        self.verbs = rng.sample(VERBS, 8)
        folder, end = {
            "python": (self.project, "py"),
            "typescript": ("src", "ts"),
            "go": ("internal", "go"),
            "rust": ("src", "rs"),
        }[self.language]
        self.files = [
            f"{folder}/{noun}_{part}.{end}"
            for noun, part in zip(self.nouns, rng.sample(PARTS, 8), strict=True)
        ]
        self.tests = f"tests/test_{self.nouns[0]}.{end}"
        self.functions = [f"{v}_{n}" for v, n in zip(self.verbs, reversed(self.nouns), strict=True)]
        self.test_command = {
            "python": f"python -m pytest {self.tests} -q",
            "typescript": f"npx vitest run {self.nouns[0]}",
            "go": f"go test ./internal/... -run {self.nouns[0].title()}",
            "rust": f"cargo test {self.nouns[0]}",
        }[self.language]

        self.comment = "#" if self.language == "python" else "//"

    def limit(self, which: int, value: int) -> str:
        """Return the line of a file that sets its limit."""
        return {
            "python": f"LIMIT = {value}",
            "typescript": f"const LIMIT = {value};",
            "go": f"const {self.nouns[which % 8]}Limit = {value}",
            "rust": f"const LIMIT: u32 = {value};",
        }[self.language]

    def test_source(self) -> str:
        """Return the text of the test file."""
        name = self.functions[0]
        return {
            "python": f"def test_{name}():\n    assert len({name}(ITEMS)) == 3\n",
            "typescript": f"test('{name}', () => {{\n  expect({name}(ALL).length).toBe(3);\n}});\n",
            "go": f"func Test_{name}(t *testing.T) {{\n\tif len({name}(items)) != 3 {{\n"
            "\t\tt.Fail()\n\t}\n}\n",
            "rust": f"#[test]\nfn {name}_finds() {{\n    assert_eq!({name}(&ALL).len(), 3);\n}}\n",
        }[self.language]

    def change(self, which: int, version: int) -> tuple[str, str]:
        """Return an old text of a file and the new one: another for each version."""
        name, other = self.functions[which % 8], self.functions[(which + version) % 8]
        noun, value = self.nouns[which % 8], 10 + 7 * (which % 8) + version
        olds = (
            self.limit(which, value),
            f"{name}(items)",
            f"{noun}_id",
            f"{self.comment} {name}",
            f"{other}(item)",
        )
        news = (
            self.limit(which, value + 1),
            f"{name}(items, {value})",
            f"{noun}_key_{version}",
            f"{self.comment} {name}: at most {value} {noun}s",
            f"{other}(item, {value})",
        )
        return olds[version % 5], news[version % 5]

    def source(self, which: int, version: int = 0) -> str:
        """Return the text of a file; each version has another body."""
        name, other = self.functions[which % 8], self.functions[(which + 3) % 8]
        noun = self.nouns[which % 8]
        limit = 10 + 7 * which + version
        body = {
            "python": f'"""{noun.title()}s of {self.project}."""\n\nLIMIT = {limit}\n\n\n'
            f"def {name}(items, limit=LIMIT):\n    found = []\n    for item in items:\n"
            f"        if item.{noun}_id > limit:\n            found.append({other}(item))\n"
            f"    return found",
            "typescript": f"import {{ {other} }} from './{self.nouns[(which + 3) % 8]}';\n\n"
            f"const LIMIT = {limit};\n\nexport function {name}(items: Item[]): Item[] {{\n"
            f"  return items.filter((i) => i.{noun}Id > LIMIT).map({other});\n}}",
            "go": f"package internal\n\nconst {noun}Limit = {limit}\n\n"
            f"func {name}(items []Item) []Item {{\n\tvar out []Item\n"
            "\tfor _, it := range items {\n"
            f"\t\tif it.{noun}ID > {noun}Limit {{\n\t\t\tout = append(out, {other}(it))\n\t\t}}\n"
            "\t}\n\treturn out\n}",
            "rust": f"const LIMIT: u32 = {limit};\n\n"
            f"pub fn {name}(items: &[Item]) -> Vec<Item> {{\n"
            f"    items.iter().filter(|i| i.{noun}_id > LIMIT).map({other}).collect()\n}}",
        }[self.language]
        return body + "\n"

    def report(self, failed: list[str], total: int, why: str = "expected 3, got 2") -> str:
        """Return what the tests print; how long they took differs each time."""
        took = self._rng.uniform(0.4, 9)
        if self.language == "python":
            lines = [f"FAILED {self.tests}::test_{name} - AssertionError: {why}" for name in failed]
            counts = f"{len(failed)} failed, " if failed else ""
            lines.append(f"{counts}{total - len(failed)} passed in {took:.2f}s")
        elif self.language == "typescript":
            lines = [f" FAIL  {self.tests} > {name}\nAssertionError: {why}" for name in failed]
            lines.append(f" Tests  {len(failed)} failed | {total - len(failed)} passed ({total})")
            lines.append(f" Duration  {took * 1000:.0f}ms")
        elif self.language == "go":
            lines = [f"--- FAIL: Test_{name} (0.00s)\n    {why}" for name in failed]
            lines.append(f"{'FAIL' if failed else 'ok'}\t{self.project}/internal\t{took:.3f}s")
        else:
            lines = [
                f"test {name} ... FAILED\n  thread '{name}' panicked: {why}" for name in failed
            ]
            lines.append(
                f"test result: {'FAILED' if failed else 'ok'}. {total - len(failed)} passed; "
                f"{len(failed)} failed; 0 ignored; finished in {took:.2f}s"
            )
        return "\n".join(lines)
