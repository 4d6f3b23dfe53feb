"""Any batch script is mapped to a job that the daemon could read, or refused by its lines."""

from hypothesis import given
from hypothesis import strategies as st

from muster.files.job.job_file import job_of
from muster.files.sbatch.directives import KNOWN
from muster.files.sbatch.mapping import batch_of
from muster.files.source.faults import FaultsError

values = st.one_of(
    st.integers(-1, 200).map(str),
    st.sampled_from(
        ["a100:4", "gpu:2", "gpu:v100:3", "1-00:00:00", "64G", "0-9%4", "USR1@30", "afterok:7"]
    ),
    st.text(st.characters(codec="ascii", exclude_characters="\n\r"), max_size=12),
)
lines = st.lists(st.tuples(st.sampled_from(sorted(KNOWN)), values), max_size=8)


@given(lines)
def test_a_script_is_mapped_or_refused_by_line(asked: list[tuple[str, str]]) -> None:
    text = "#!/bin/sh\n" + "".join(f"#SBATCH --{option}={value}\n" for option, value in asked)
    try:
        job = batch_of(text, "x.sbatch", "x")
    except FaultsError as error:
        assert all(line.startswith("x.sbatch:") for line in error.lines)
        return
    assert len(job.notes) <= 2 * len(asked), "nothing is told of what is not there"
    job.record.pop("sweep", None)
    record = {**job.record, "env": {}, "command": ["true"]}
    try:
        job_of(record)
    except FaultsError as error:  # what Slurm would take and a job file does not, told by its field
        assert all(fault.loc for fault in error.faults)
