"""The API is what its description says: schemathesis finds nothing that is not."""

import asyncio
from typing import Any, cast

import schemathesis
from hypothesis import HealthCheck, settings

from muster.api.app import create_app
from muster.api.door.limits import Limits
from muster.daemon.service.protocol import Caller, Service
from muster.files.job.job_file import job_of
from tests.fake_service import FakeService

EXAMPLES = 4
"""For each of 25 operations, beside the cases that schemathesis goes through in any case."""

CONFIG = {
    "seed": 6,
    "generation": {"deterministic": True, "max-examples": EXAMPLES, "database": "none"},
    "auth": {"openapi": {"token": {"bearer": "root"}}},
    # What no schema can say (a gang above the count, a type named twice) is refused with 422.
    "checks": {"positive_data_acceptance": {"expected-statuses": ["2XX", 401, 403, 404, 409, 422]}},
}


def filled() -> FakeService:
    """A service with a job that runs and has printed something."""
    service = FakeService(endless=False)
    job = job_of({"command": "python train.py", "name": "resnet50"})
    asyncio.run(service.submit(Caller("root", admin=True), job))
    service.start(1)
    service.print(1, "1/worker-0", b"step 1\n")
    service.end(1)
    return service


APP = create_app(cast(Service, filled()), limits=Limits(rate=1e9, burst=10**9))
schema = schemathesis.openapi.from_asgi(
    "/openapi.json", APP, config=schemathesis.Config.from_dict(CONFIG)
)


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_as_described(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate()
