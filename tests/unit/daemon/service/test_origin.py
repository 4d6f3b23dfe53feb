"""Where a job was submitted counts as part of it, and does not make it another one."""

import pytest

from muster.daemon.service.job_names import digest_of
from muster.daemon.service.protocol import RefusedError
from muster.daemon.service.submitting.user_limits import ENVIRONMENT_BYTES, refuse_oversized
from muster.model.job import Job, Origin, Program


def submitted_from(*path: str) -> Job:
    return Job("a", ("python",), program=Program(origin=Origin((("PATH", ":".join(path)),), path[0])))


def test_a_repeated_key_may_come_from_another_shell() -> None:
    assert digest_of(submitted_from("/venv/bin")) == digest_of(submitted_from("/usr/bin", "/bin"))


def test_what_is_taken_along_counts_as_environment() -> None:
    refuse_oversized(submitted_from("/usr/bin"))
    with pytest.raises(RefusedError, match="its environment has"):
        refuse_oversized(submitted_from("/x" * ENVIRONMENT_BYTES))
