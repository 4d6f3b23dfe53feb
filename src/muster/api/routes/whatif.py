"""Changes that are only asked about."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from muster.api.parts import Parts, Who, answers, reply
from muster.api.routes.submissions import job_in
from muster.api.whatif_bodies import WhatIfBody
from muster.daemon.service.protocol import Caller
from muster.daemon.whatif.asked import AskedNodes, AskedPool, AskedWhatIf
from muster.wire.api.whatif_records import WhatIfRecord

Key = Annotated[str, Path(pattern=r"^[0-9a-f]{1,32}$", description="As POST /v1/what-if gave it.")]


def whatif_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.post(
        "",
        summary="Ask what a change would do",
        status_code=202,
        responses=answers(WhatIfRecord, "The question; its answer takes a while.", 202),
    )
    async def ask_what_if(who: Who, body: WhatIfBody) -> Response:
        """Plays the futures of all live jobs with and without the changes, with the same draws; nothing
        is changed. A user has one question at a time."""
        record = await service.ask_what_if(who, _asked(body, who))
        return reply(record, 202, {"Location": f"/v1/what-if/{record.id}"})

    @router.get(
        "/{key}",
        summary="Read what a change would do",
        responses=answers(WhatIfRecord, "How far it is; with its report once that is there."),
    )
    async def what_if(who: Who, key: Key) -> Response:
        """For who asked. Of jobs that the caller may not see, only how many get better or worse."""
        return reply(await service.what_if(who, key))


def _asked(body: WhatIfBody, who: Caller) -> AskedWhatIf:
    pools = {
        name: AskedPool(
            pool.parent, {kind: quota.quota() for kind, quota in pool.quotas.items()}, pool.rules()
        )
        for name, pool in body.pools.items()
    }
    return AskedWhatIf(
        body.policy,
        pools,
        tuple(AskedNodes(each.names, each.like, each.at) for each in body.add),
        tuple(AskedNodes(each.names, "", each.at, each.by) for each in body.drain),
        tuple((job_in(each.job, who), each.at) for each in body.submit),
        body.priorities,
        body.worlds,
        body.seed,
    )
