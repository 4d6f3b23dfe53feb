"""Each pool its own policy: the leaf pools are divided into sections, one for each policy.

Source: Xiao's many schedulers with one small centre that approves what they want. A section's policy
sees the jobs of its own pools and the entitlements of all; what other pools are entitled to is not its
to give. All sections of a cycle claim from one ledger.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from muster.model.pool import Entitlements, PoolTree
from muster.model.view import Phase, View
from muster.policy.base import Allocation, Merits, Policy, exactly
from muster.policy.market.straddle import straddles
from muster.policy.merits import by_age
from muster.policy.registry import POLICIES, PolicyError


@dataclass(frozen=True, slots=True)
class Section:
    """A policy and the leaf pools it decides about."""

    policy: Policy
    pools: frozenset[str]


@dataclass(frozen=True, slots=True)
class SectionShares:
    """What one policy wants for the jobs of its pools, and its memory."""

    policy: str
    pools: frozenset[str]
    allocations: tuple[Allocation, ...]
    steers: bool
    again: float
    memory: object = None
    gangs: tuple[Allocation, ...] = ()
    """Gangs that no device type holds alone, of a policy that steers: they queue (`straddle`)."""
    merits: Callable[[], Merits] | None = field(default=None, compare=False)
    """How the policy ranked them; only where they are planned."""
    asks: bool = False
    """Whether `again` is all the cycles that it needs while jobs wait."""


class Sections:
    """The sections of a tree of pools, kept while the tree stays the same."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._pools: PoolTree | None = None
        self._found: tuple[Section, ...] = ()

    def of(self, pools: PoolTree) -> tuple[Section, ...]:
        """Return a section for each policy, in the order of the pools."""
        if pools is not self._pools:
            self._pools, self._found = pools, _divided(pools, self._policy)
        return self._found


def _divided(pools: PoolTree, policy: Policy) -> tuple[Section, ...]:
    leaves: dict[str, list[str]] = {}
    for leaf in pools.leaves():
        leaves.setdefault(pools.policy_of(leaf, policy.name), []).append(leaf)
    own = {policy.name: policy}
    return tuple(
        Section(own.get(name) or _named(name), frozenset(each)) for name, each in leaves.items()
    )


def _named(name: str) -> Policy:
    """Return a policy; without its options if it has none of them: the aim of a pool may have been
    meant for the policy that the cluster had before."""
    try:
        return POLICIES.find(name)
    except PolicyError:
        return POLICIES[name.partition(":")[0]]


def check_policies(pools: PoolTree, policy: str, before: PoolTree | None = None) -> None:
    """Raise PolicyError for the first pool that no policy can decide about as it is set.

    An aim that a pool had before the change to this tree can be lifted, and the error says how.
    """
    for leaf in pools.leaves():
        try:
            POLICIES.find(pools.policy_of(leaf, policy))
        except PolicyError as error:
            hint = "" if before is None else _way_out(pools, leaf, before)
            raise PolicyError(f"pool {leaf!r}: {error}{hint}") from None


def _way_out(pools: PoolTree, leaf: str, before: PoolTree) -> str:
    holder = pools.aimed(leaf)
    known = before.pools.get(holder) if holder is not None else None
    if known is None or known.aim != pools.pools[known.name].aim:
        return ""
    return f"; muster pool set {holder} --aim none lifts it"


def policies_of(pools: PoolTree, policy: Policy) -> tuple[Policy, ...]:
    """Return the policies that decide about some pool."""
    return tuple(section.policy for section in _divided(pools, policy))


def is_informed(pools: PoolTree, policy: Policy) -> bool:
    """Whether some pool's policy reads outlooks."""
    return any(each.informed for each in policies_of(pools, policy))


def own_part(view: View, pools: Collection[str]) -> View:
    """Return the view with the jobs of these pools alone."""
    jobs = {number: state for number, state in view.jobs.items() if state.job.pool in pools}
    return view if len(jobs) == len(view.jobs) else replace(view, jobs=jobs)


def allocate(
    sections: Collection[Section],
    view: View,
    entitled: Entitlements,
    now: float,
    memories: Mapping[str, object],
) -> Iterator[SectionShares]:
    """Yield what each section's policy wants for the jobs of its pools."""
    for section in sections:
        part = own_part(view, section.pools) if len(view.pools.pools) > 1 else view
        name = section.policy.name
        share = section.policy.allocate(part, entitled, now, memories.get(name))
        given = (share.allocations, share.steers, share.again, share.memory)
        gangs = tuple(_straddling(part, entitled)) if share.steers else ()
        merits = share.merits or partial(by_age, part.jobs.values(), now)
        yield SectionShares(name, section.pools, *given, gangs, merits, share.asks)


def _straddling(view: View, entitled: Entitlements) -> Iterator[Allocation]:
    """Yield the gangs that wait for devices of several types."""
    for state in view.jobs.values():
        job = state.job
        mixes = not job.same_generation and state.phase is Phase.WAITING
        if mixes and straddles(job, entitled.capacity):
            yield exactly(state.number, job.workers.gang)


def narrowed(
    sections: Collection[Section], leaves: Collection[str], others: Collection[str]
) -> Iterator[Section]:
    """Yield the sections without the pools that others plan for."""
    here = frozenset(leaves).difference(others)
    for section in sections if here else ():
        if own := section.pools & here:
            yield Section(section.policy, own)
