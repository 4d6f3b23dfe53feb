"""Calls and results by way of the daemon, for nodes that do not see this machine's files: a call is a
pack, as a shipped folder is, and results are copied from the tasks that wrote them."""

from itertools import count
from pathlib import Path

from muster.client.client import Client
from muster.client.errors import ClientError
from muster.functions.call import CALL, RESULT
from muster.wire.api.records import JobRecord

IGNORED = ".musterignore"
"""Has the last word on what is packed: the folder may be below a repository that ignores it."""


def sent(client: Client, folder: Path) -> str:
    """Send the call of a folder to the daemon; return what a job ships to get it."""
    from muster.client.sending.pack import pack_folder  # slow to import, and seldom needed
    from muster.client.sending.pack_upload import upload

    (folder / IGNORED).write_text(f"!{CALL}\n", encoding="utf-8")
    pack = pack_folder(folder)
    with pack.file:
        upload(client.connection, pack)
    return pack.digest


def fetch_results(client: Client, job: JobRecord, folder: Path) -> None:
    """Copy what came of a call to this machine; nothing from tasks that died before they wrote it."""
    for rank in count():
        name = f"worker-{rank}{RESULT}"
        try:
            client.copy_from(job.number, name, folder / name, rank=rank)
        except ClientError:
            return
