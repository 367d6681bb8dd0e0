"""One question that the admin API answers: what it takes, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from looptrap.admin.openapi.kind import Schema, parameters_of
from looptrap.schema import Table

Method = Literal["GET", "POST", "PUT", "DELETE"]

TOLD = {
    400: "what was sent has mistakes: nothing was changed",
    401: "the token is missing or wrong",
    403: "read_only, cross_site or foreign_host: this one may not do that, or not from there",
    404: "there is no such thing",
    408: "the request did not arrive in time",
    409: "it is another by now, or there is nothing to judge",
    413: "more was sent than is taken",
    415: "the body is not application/json",
    422: "an answer would take too long: ask for less",
    429: "such a question is being answered already",
    500: "this failed inside; the log says why",
    502: "the worker that was asked has ended",
    503: "the history or the store cannot be used, or no worker is up",
}
"""What it means that a question is not answered, by status."""

ALWAYS = (400, 401, 403, 408, 500, 502, 503)
OF_BODIES = (413, 415)

JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What is asked under a path, and answered."""

    method: Method
    path: str
    about: str
    answer: Any
    """The type of what comes back."""
    status: int = 200
    parameters: Table[Any] | None = None
    body: Any = None
    """Its schema, or its type."""
    headers: tuple[str, ...] = ()
    """Of the request, that count."""
    errors: tuple[int, ...] = ()
    """Statuses that not every question can have."""
    kind: str = JSON
    of_path: dict[str, Schema] = field(default_factory=dict)
    """What may stand in the path, where that is not any text."""

    @property
    def name(self) -> str:
        """What tells it from all others."""
        words = self.path.removeprefix("/api/v1/").replace("{", "").replace("}", "")
        return (
            f"{self.method.lower()}_{words.replace('/', '_').replace('-', '_').replace('.', '_')}"
        )

    def described(self, answer: Schema) -> Schema:
        """Return the operation as a document has it; `answer` is the schema of what comes back."""
        told: Schema = {
            "operationId": self.name,
            "tags": [self.path.split("/")[3].removesuffix(".json")],
            "summary": self.about,
            "parameters": self._parameters(),
            "responses": {
                str(self.status): {
                    "description": "what was asked for",
                    "content": {self.kind: {"schema": answer}},
                }
            },
        }
        if self.body is not None:
            told["requestBody"] = {"required": True, "content": {JSON: {"schema": self.body}}}
        codes = {*ALWAYS, *self.errors, *(OF_BODIES if self.body is not None else ())}
        for code in sorted(codes):
            told["responses"][str(code)] = {"$ref": f"#/components/responses/{code}"}
        return told

    def _parameters(self) -> list[Schema]:
        in_path = [one.strip("{}") for one in self.path.split("/") if one.startswith("{")]
        text = {"type": "string", "minLength": 1}
        return [
            *(
                {
                    "name": name,
                    "in": "path",
                    "required": True,
                    "schema": self.of_path.get(name, text),
                }
                for name in in_path
            ),
            *(parameters_of(self.parameters) if self.parameters is not None else ()),
            *(
                {"name": name, "in": "header", "required": False, "schema": {"type": "string"}}
                for name in self.headers
            ),
        ]
