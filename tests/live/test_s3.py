"""Jobs whose checkpoints are in a bucket of a real S3 server."""

import sys
from pathlib import Path

import fsspec
import pytest

from tests import s3_server
from tests.live.conftest import Make
from tests.live.daemons import LONG

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

SWEEP = Path(__file__).parent / "scripts" / "sweep.py"


def test_a_shipped_job_saves_to_a_bucket_and_another_resumes_there(make: Make, tmp_path: Path) -> None:
    if not s3_server.installed():
        pytest.skip(s3_server.MISSING)
    code = tmp_path / "code"
    code.mkdir()
    (code / "sweep.py").write_text(SWEEP.read_text())
    with s3_server.s3_server(tmp_path / "s3") as variables, pytest.MonkeyPatch.context() as patch:
        for name, text in variables.items():
            patch.setenv(name, text)
        fsspec.filesystem("s3").mkdir("training")
        daemon = make(devices=2)
        daemon.start()
        common = {"ship": str(code), "folder": str(code), "env": variables}

        def run(name: str, epochs: str, **fields: str) -> str:
            record = {"name": name, "command": [sys.executable, "sweep.py", "0.1", epochs]}
            job = daemon.client.submit({**record, **common, **fields})
            said = "\n".join(job.logs(follow=True))
            assert job.wait(LONG).status == "succeeded", said
            return said

        said = run("first", "2", checkpoint="s3://training/first")
        assert "checkpoints are written to s3://training/first/checkpoints" in said
        names = fsspec.filesystem("s3").ls("training/first/checkpoints", detail=False)
        assert [name for name in names if name.endswith("step-000000000008.pt")]
        more = {"checkpoint": "s3://training/more", "resume_from": "first"}
        said = run("more", "3", **more)
        assert "resuming from step 8 of job first" in said
        assert "at step 12" in said
        saved = daemon.detail("more").program
        assert saved is not None and saved.checkpoint == "s3://training/more"
