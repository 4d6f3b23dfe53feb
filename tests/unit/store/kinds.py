"""Every value that a type allows: facts and states nobody would think of."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from muster.model.pool import PoolTree
from tests.builders import cluster
from tests.prop.worlds import pool_trees

INTEGERS = st.integers(-(2**63), 2**63 - 1)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
ANY_SIZE = st.floats(allow_nan=False)


def values(kind: Any, numbers: st.SearchStrategy[float] = FINITE) -> st.SearchStrategy[Any]:  # noqa: PLR0911
    """Any value that a field of this type may have."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is PoolTree:
        return pool_trees(cluster())
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        parts = {f.name: values(hints[f.name], numbers) for f in fields(kind) if f.init}
        return st.builds(kind, **parts)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    if origin in (Union, UnionType):
        return st.one_of([values(each, numbers) for each in inner])
    if origin is tuple and inner[-1] is Ellipsis:
        return st.lists(values(inner[0], numbers), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*(values(each, numbers) for each in inner))
    if origin is Mapping:
        return st.dictionaries(values(inner[0], numbers), values(inner[1], numbers), max_size=2)
    plain = {
        str: st.text(max_size=4),
        int: INTEGERS,
        float: numbers,
        bool: st.booleans(),
        NoneType: st.none(),
    }
    return plain[kind]
