"""Routes that are made once somebody asks for them, and described once somebody asks for that."""

from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

Responses = dict[int | str, dict[str, Any]]


class LazyRoute(Route):
    """A path, until its first request: reading the signatures of all routes takes a tenth of a daemon's
    start. The models of its answers, which take another fifth, only the OpenAPI document needs."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        methods: set[str] | list[str],
        responses: Responses | None = None,
        **options: Any,
    ) -> None:
        super().__init__(path, endpoint, name=options.get("name"))
        self.methods = set(methods)  # without the HEAD that comes with each GET otherwise
        plain = {
            status: {key: value for key, value in each.items() if key != "model"}
            for status, each in (responses or {}).items()
        }
        self._make: Callable[[Responses | None], APIRoute] = lambda answers: APIRoute(
            path, endpoint, methods=methods, responses=answers, **options
        )
        self._plain, self._responses = plain, responses
        self._made: APIRoute | None = None

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, without models of the answers."""
        if self._made is None:
            self._made = self._make(self._plain)
        scope["route"] = self._made
        await self._made.handle(scope, receive, send)

    def described(self) -> APIRoute:
        """Return the same route with its models."""
        return self._make(self._responses)
