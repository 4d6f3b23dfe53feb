"""The OpenAPI document: the routes, the schema of jobs, and every error."""

import ast
import inspect
from dataclasses import is_dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from muster import __version__
from muster.api import problem as problems
from muster.api.door.gate import OPEN_PATHS
from muster.api.lazy_route import LazyRoute
from muster.files.job.job_file import job_schema
from muster.wire.api import map_records, records, sweep_records

Schema = dict[str, Any]

_ABOUT = """The API of a Muster daemon. Errors are problems of RFC 9457, with `errors` by field and a
`hint`. See docs/reference/api.md."""
_ERRORS = {
    400: "The body is not JSON.",
    401: "The token is missing or not valid.",
    403: "Not allowed for this caller.",
    404: "Not found, or not visible to the caller.",
    409: "Conflicts with the current state.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "Not valid, or impossible on this cluster; `errors` says why.",
    429: "Too many requests or streams; retry after `Retry-After` s.",
    500: "Internal error.",
    503: "Temporarily unavailable; `/v1/status` says why.",
}
_ALWAYS = (401, 403, 404, 413, 415, 422, 429, 500, 503)
_WITH_CHANGE = (400, 409)
_AS_IT_IS = frozenset({"examples", "enum", "default", "required"})
_LOOSE: dict[str, Schema] = {
    "string": {"type": ["string", "number", "boolean"]},
    "boolean": {"type": ["boolean", "string"], "enum": [True, False, "true", "yes", "false", "no"]},
    "integer": {"type": ["integer", "string"], "pattern": r"^[+-]?[0-9]{1,15}$"},
    "number": {"type": ["number", "string"], "pattern": r"^[0-9]{1,15}(\.[0-9]{1,9})?$"},
}
"""Types of the job file's fields, and what a request may send for them."""


def describe(app: FastAPI) -> Schema:
    """Return the OpenAPI document, made once."""
    if app.openapi_schema is None:
        app.openapi_schema = _made(app)
    return app.openapi_schema


def _made(app: FastAPI) -> Schema:
    routes = [each.described() if isinstance(each, LazyRoute) else each for each in app.routes]
    found = get_openapi(title="Muster", version=__version__, description=_ABOUT, routes=routes)
    components: Schema = found.setdefault("components", {})
    schemas: Schema = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas.update(_job_schemas())
    schemas.update(_problem_schemas())
    _explain(schemas)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    components["responses"] = {str(code): _error(text) for code, text in _ERRORS.items()}
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            _complete(operation, path, method)
    return found


def _complete(operation: Schema, path: str, method: str) -> None:
    """Add the errors of every request, and the token."""
    open_path = path in OPEN_PATHS
    operation["security"] = [] if open_path else [{"token": []}]
    codes = _ALWAYS if method == "get" else _ALWAYS + _WITH_CHANGE
    for code in codes:
        operation["responses"][str(code)] = {"$ref": f"#/components/responses/{code}"}


def _error(text: str) -> Schema:
    content = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": text, "content": content}


def _problem_schemas() -> Schema:
    """The schemas of errors, which no route names as its answer."""
    schema = TypeAdapter(problems.Problem).json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs", {}), "Problem": schema}


def _job_schemas() -> Schema:
    """The schema of jobs as JSON: a number may be text, and text a number."""
    schema = job_schema()
    found = {name: _loosened(each) for name, each in schema.pop("$defs").items()}
    schema.pop("$schema")
    return {**found, "Job": _loosened({**schema, "title": "Job"})}


def _loosened(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_loosened(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return {**schema, "$ref": schema["$ref"].replace("#/$defs/", "#/components/schemas/")}
    found = {key: each if key in _AS_IT_IS else _loosened(each) for key, each in schema.items()}
    kind = schema.get("type")
    if isinstance(kind, list) and "string" in kind:
        return {**found, "type": sorted({*kind, "number", "boolean"})}
    return {**found, **_LOOSE.get(kind, {})} if isinstance(kind, str) else found


def _explain(schemas: Schema) -> None:
    for module in (records, sweep_records, map_records, problems):
        for name, kind in vars(module).items():
            if is_dataclass(kind) and name in schemas:
                for field, text in _field_texts(kind).items():
                    schemas[name]["properties"][field]["description"] = text


def _field_texts(kind: Any) -> dict[str, str]:
    """The docstrings below a class's fields."""
    tree = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            match text:
                case ast.Expr(value=ast.Constant(value=str(words))):
                    found[field.target.id] = " ".join(words.split())
    return found
