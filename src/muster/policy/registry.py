"""Every policy by name."""

from muster.policy.base import Policy
from muster.policy.fifo import Fifo

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (Fifo(),)}
