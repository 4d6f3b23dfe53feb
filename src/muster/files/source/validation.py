"""Validate a file's data, and turn pydantic's errors into one line each."""

import json
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from muster.files.errors import Loc, did_you_mean
from muster.files.source.faults import MAX_FAULTS, Fault, first_of
from muster.files.source.yaml_source import Source

M = TypeVar("M", bound=BaseModel)

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SENTENCES = {
    "model_type": "must be a mapping of fields to values",
    "dict_type": "must be a mapping of names to values",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "string_type": "must be text",
}


def validated(model: type[M], source: Source) -> M:
    """Return the file's data as an entry; InputError for the first fault, by line."""
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        first = first_of(faults_of(model, error, source))
    raise source.error(first.loc, first.problem)


def faults_of(model: type[BaseModel], error: ValidationError, source: Source) -> list[Fault]:
    """Return pydantic's errors as faults, in the order of their lines, at most `MAX_FAULTS`."""
    # A missing field comes last: it has no line, and is often a misspelt key.
    found = sorted(
        error.errors(include_url=False, include_input=False),
        key=lambda e: (e["type"] == "missing", source.line(e["loc"])),
    )
    return [
        Fault(
            each["loc"] if each["type"] == "missing" else source.known(each["loc"]),
            _sentence(each, model),
        )
        for each in found[:MAX_FAULTS]
    ]


def _sentence(error: ErrorDetails, model: type[BaseModel]) -> str:
    *outer, last = error["loc"] or ("",)
    if error["type"] == "extra_forbidden":
        fields = list(_fields_at(model, tuple(outer)))
        hint = did_you_mean(str(last), fields) or f"; choose from: {', '.join(fields)}"
        return f"unknown field{hint}"
    if error["type"] == "missing":
        return missing(_fields_at(model, tuple(outer))[str(last)])
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    return _SENTENCES.get(error["type"], error["msg"])


def missing(field: FieldInfo) -> str:
    """Return the message for a field that must be there."""
    examples = field.examples
    return f"is missing; write for example {_written(examples[0])}" if examples else "is missing"


def _written(example: object) -> str:
    """Format an example as in a file."""
    if isinstance(example, dict | list):
        return yaml.safe_dump(example, default_flow_style=True, width=1000, sort_keys=False).strip()
    return str(example)


def _fields_at(model: type[BaseModel], loc: Loc) -> dict[str, FieldInfo]:
    """Return the fields of the mapping at a place."""
    at: Any = model
    for step in loc:
        # Between two entries there is only a mapping of names to entries.
        inner = at.model_fields[step].annotation if hasattr(at, "model_fields") else get_args(at)[-1]
        at = _bare(inner)
    fields: dict[str, FieldInfo] = at.model_fields
    return fields


def _bare(annotation: Any) -> Any:
    """Return a type without `Annotated[...]` and `... | None`."""
    if get_origin(annotation) in (Annotated, Union, UnionType):
        return _bare(get_args(annotation)[0])
    return annotation


class _AsWritten(GenerateJsonSchema):
    """Optional fields are not nullable, and fields have no titles."""

    def field_title_should_be_set(self, schema: CoreSchema | Any) -> bool:
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if found.get("default", ...) is None:
            del found["default"]
        return found


def schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    body = model.model_json_schema(schema_generator=_AsWritten)
    return {"$schema": DIALECT, **body, "title": title}


def schema_text(schema: dict[str, Any]) -> str:
    """Format a JSON Schema as in docs/schema."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
