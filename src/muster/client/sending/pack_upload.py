"""Uploads a packed folder, part by part: what the daemon has is not sent again."""

from base64 import b64encode

from muster.client.connecting.connection import DaemonConnection, place
from muster.client.sending.pack import Pack
from muster.wire.api.records import PACK_PART, PackRecord


def upload(connection: DaemonConnection, pack: Pack) -> None:
    """Send the parts of a pack that the daemon lacks; after a break, from where it broke off."""
    path = place("packs", pack.digest)
    known = connection.call(PackRecord, "GET", path)
    while not known.complete:
        pack.file.seek(known.size)
        data = pack.file.read(PACK_PART)
        last = known.size + len(data) >= pack.size
        body = {"offset": known.size, "data": b64encode(data).decode("ascii"), "last": last}
        known = connection.call(PackRecord, "PUT", path, body=body)
