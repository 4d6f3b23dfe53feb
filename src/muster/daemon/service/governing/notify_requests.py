"""Subscriptions: who is told what of jobs."""

from muster.daemon.notify.notifier import Notifier
from muster.daemon.notify.subscription import MOST, Subscription, refuse_bad
from muster.daemon.service.governing.audit import audited
from muster.daemon.service.protocol import Caller, NotFoundError, RefusedError
from muster.daemon.service.reading.usage_requests import UsageRequests
from muster.wire.api.use_records import SubscriptionRecord, TrialRecord


class NotifyRequests(UsageRequests):
    """Requests about subscriptions, each user's own; documented in the protocol."""

    notifier: Notifier

    async def subscriptions(self, caller: Caller) -> list[SubscriptionRecord]:
        known = self.notifier.subscriptions.values()
        mine = [each for each in known if caller.admin or each.user == caller.user]
        return [self._subscription(each) for each in sorted(mine, key=lambda each: each.key)]

    @audited("subscribe")
    async def subscribe(
        self, caller: Caller, name: str, subscription: SubscriptionRecord
    ) -> SubscriptionRecord:
        made = Subscription(
            name,
            caller.user,
            tuple(subscription.on),
            subscription.webhook,
            subscription.command,
            subscription.everybody,
            subscription.pool,
            subscription.patience,
            caller.admin,
        )
        refuse_bad(made, caller.admin)
        others = [e for e in self.notifier.subscriptions.values() if e.user == caller.user]
        if made.key not in self.notifier.subscriptions and len(others) >= MOST:
            raise RefusedError(f"{caller.user} has {MOST} subscriptions, the most; remove one first")
        await self.notifier.change(made.key, made)
        return self._subscription(made)

    @audited("unsubscribe")
    async def unsubscribe(self, caller: Caller, name: str) -> None:
        await self.notifier.change(self._own(caller, name).key, None)

    async def try_subscription(self, caller: Caller, name: str) -> TrialRecord:
        error = await self.notifier.try_out(self._own(caller, name))
        return TrialRecord(told=not error, error=error)

    async def notify_secret(self, caller: Caller) -> str:
        return await self.notifier.secret(caller.user)

    def _own(self, caller: Caller, name: str) -> Subscription:
        found = self.notifier.subscriptions.get(f"{caller.user}/{name}")
        if found is None:
            raise NotFoundError(f"no subscription named {name!r} of yours; see: muster notify list")
        return found

    def _subscription(self, each: Subscription) -> SubscriptionRecord:
        told, pending, given_up, error = self.notifier.state_of(each.key)
        return SubscriptionRecord(
            each.name,
            each.user,
            each.on,
            each.webhook,
            each.command,
            each.everybody,
            each.pool,
            each.patience,
            told,
            pending,
            given_up,
            error,
        )
