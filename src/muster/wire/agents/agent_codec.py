"""How daemon and agents read each other: each only what the other may say."""

from typing import get_args

from muster.wire.agents.agent_messages import FromAgent, ToAgent
from muster.wire.tasks.codec import Codec

FROM_AGENT: Codec[FromAgent] = Codec(get_args(FromAgent))
TO_AGENT: Codec[ToAgent] = Codec(get_args(ToAgent))
