"""A job's program for the API: users of shared pools see it, so its secrets are masked."""

import re
from collections.abc import Iterable

from muster.model.job import Program
from muster.wire.api.records import ProgramRecord

SECRET = re.compile(r"TOKEN|SECRET|KEY|PASSW|PASSPHRASE|CREDENTIAL|AUTH", re.IGNORECASE)
"""Names of variables whose values nobody else should see; rather one too many."""
USERINFO = re.compile(r"(?<=://)[^/\s]*@")
"""User and password of a URL. Greedy: a password may itself contain an @."""
MASK = "***"


def program_record(program: Program) -> ProgramRecord:
    """Return what a job runs, without its secrets."""
    return ProgramRecord(
        executable=program.origin.executable,
        folder=program.folder,
        shell=program.shell,
        env=_masked(program.environ),
        inherited=_masked(program.origin.environ),
        host=program.origin.host,
        ship=program.ship,
        checkpoint=USERINFO.sub(f"{MASK}@", program.checkpoint),
    )


def _masked(environ: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {
        name: MASK if SECRET.search(name) else USERINFO.sub(f"{MASK}@", text) for name, text in environ
    }
