"""Routes without a daemon, asked as a browser would."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx
from starlette.applications import Starlette
from starlette.routing import BaseRoute


@dataclass(frozen=True)
class Routed:
    """Asks these routes, a connection per request."""

    routes: Sequence[BaseRoute]

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return asyncio.run(self._get(path, headers))

    async def _get(self, path: str, headers: Mapping[str, str] | None) -> httpx.Response:
        transport = httpx.ASGITransport(Starlette(routes=list(self.routes)))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get(path, headers=headers)
