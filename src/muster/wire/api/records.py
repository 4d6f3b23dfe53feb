"""Records of the API: jobs, nodes, pools and the rest, as JSON.

Times are seconds since 1970; None: never or unknown.
"""

from muster.wire.api.daemon_records import PolicyRecord, StatusRecord
from muster.wire.api.job_records import (
    LIVE,
    OVER,
    ChangeRecord,
    Forecast,
    JobDetail,
    JobPage,
    JobRecord,
    PlanRecord,
    PredictionRecord,
    ProgramRecord,
    TaskRecord,
    prediction_error,
    workers_asked,
)
from muster.wire.api.node_records import (
    LeavingRecord,
    NodeHealth,
    NodeRecord,
    NodeTaskRecord,
    UplinkRecord,
)
from muster.wire.api.pack_records import PACK_PART, SHIP_ENTRIES, SHIP_LIMIT, PackRecord
from muster.wire.api.pool_records import PoolRecord, QuotaRecord
from muster.wire.api.trust_records import (
    ActRecord,
    IdentityRecord,
    InvitationRecord,
    RotationRecord,
    TokenRecord,
)

__all__ = [
    "LIVE",
    "OVER",
    "PACK_PART",
    "SHIP_ENTRIES",
    "SHIP_LIMIT",
    "ActRecord",
    "ChangeRecord",
    "Forecast",
    "IdentityRecord",
    "InvitationRecord",
    "JobDetail",
    "JobPage",
    "JobRecord",
    "LeavingRecord",
    "NodeHealth",
    "NodeRecord",
    "NodeTaskRecord",
    "PackRecord",
    "PlanRecord",
    "PolicyRecord",
    "PoolRecord",
    "PredictionRecord",
    "ProgramRecord",
    "QuotaRecord",
    "RotationRecord",
    "StatusRecord",
    "TaskRecord",
    "TokenRecord",
    "UplinkRecord",
    "prediction_error",
    "workers_asked",
]
