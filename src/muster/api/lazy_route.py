"""Routes that describe the records they answer with only once somebody asks for the description."""

from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute

Responses = dict[int | str, dict[str, Any]]


class LazyRoute(APIRoute):
    """A route whose answers have no models: pydantic takes a fifth of a daemon's start to read all of
    them, and only the OpenAPI document needs them."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        responses: Responses | None = None,
        **options: Any,
    ) -> None:
        plain = {
            status: {key: value for key, value in each.items() if key != "model"}
            for status, each in (responses or {}).items()
        }
        super().__init__(path, endpoint, responses=plain, **options)
        self._described: Callable[[], APIRoute] = lambda: APIRoute(
            path, endpoint, responses=responses, **options
        )

    def described(self) -> APIRoute:
        """Return the same route with its models."""
        return self._described()
