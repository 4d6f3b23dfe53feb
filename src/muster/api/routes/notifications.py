"""Who is told what of jobs."""

from fastapi import APIRouter
from starlette.responses import Response

from muster.api.bodies import SubscriptionBody
from muster.api.parts import Named, Parts, Who, answers, reply
from muster.wire.api.use_records import SecretRecord, SubscriptionRecord, TrialRecord


def notification_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get(
        "",
        summary="List subscriptions",
        responses=answers(list[SubscriptionRecord], "By user and name."),
    )
    async def subscriptions(who: Who) -> Response:
        """The caller's; everybody's for an administrator."""
        return reply(await service.subscriptions(who))

    @router.put(
        "/{name}", summary="Add or change a subscription", responses=answers(SubscriptionRecord, "It.")
    )
    async def subscribe(who: Who, name: Named, body: SubscriptionBody) -> Response:
        """A webhook for one's own jobs; commands, and other users' jobs, for administrators."""
        return reply(await service.subscribe(who, name, body.record(name)))

    @router.delete("/{name}", status_code=204, summary="Remove a subscription")
    async def unsubscribe(who: Who, name: Named) -> Response:
        """What was on its way is dropped."""
        await service.unsubscribe(who, name)
        return Response(status_code=204)

    @router.post(
        "/{name}/test", summary="Try a subscription", responses=answers(TrialRecord, "How it went.")
    )
    async def test(who: Who, name: Named) -> Response:
        """Tells the subscriber of something that did not happen, once, and says how it went."""
        return reply(await service.try_subscription(who, name))


def signing_routes(router: APIRouter, parts: Parts) -> None:
    service = parts.service

    @router.get("", summary="Show the signing key", responses=answers(SecretRecord, "The key."))
    async def secret(who: Who) -> Response:
        """What the caller's notices are signed with: `X-Muster-Signature` is `sha256=` and the
        HMAC-SHA256 of the header `X-Muster-Time`, a full stop and the body."""
        return reply(SecretRecord(await service.notify_secret(who)))
