"""A real S3 server for tests: OpenStack Swift with its S3 API, in a folder and at ports of its own."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec

PROGRAMS = Path(os.environ.get("MUSTER_S3_SERVER", Path(__file__).parent.parent / ".s3/bin"))
MISSING = "no S3 server: make s3 installs one"
PARTS = ("account", "container", "object", "proxy")
LONG = 120.0

_COMMON = """[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
workers = 0
user = {user}
swift_dir = {folder}
devices = {folder}/devices
mount_check = false
fallocate_reserve = 0
"""
_STORAGE = """[pipeline:main]
pipeline = {part}-server
[app:{part}-server]
use = egg:swift#{part}
"""
_FILTERS = ("catch_errors", "gatekeeper", "listing_formats", "s3api", "tempauth", "copy", "slo", "dlo")
_PROXY = f"""[pipeline:main]
pipeline = {" ".join(_FILTERS)} proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
""" + "".join(f"[filter:{each}]\nuse = egg:swift#{each}\n" for each in _FILTERS)
_USER = "user_test_tester = testing .admin\n"


def installed() -> bool:
    return (PROGRAMS / "swift-proxy-server").exists()


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """Run a server; yields the variables with which clients reach it."""
    ports = dict(zip(PARTS, _free_ports(len(PARTS)), strict=True))
    _configure(folder, ports)
    running = [_started(folder, part) for part in PARTS]
    try:
        for part, port in ports.items():
            _await(folder, part, port)
        # Clients of a server before this one, made with the same arguments, would be used again.
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{ports['proxy']}",
            "AWS_ACCESS_KEY_ID": "test:tester",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(LONG)
        shutil.rmtree(folder, ignore_errors=True)


def _configure(folder: Path, ports: dict[str, int]) -> None:
    (folder / "devices" / "d1").mkdir(parents=True)
    (folder / "swift.conf").write_text("[swift-hash]\nswift_hash_path_suffix = muster\n")
    for part, port in ports.items():
        common = _COMMON.format(port=port, user=getpass.getuser(), folder=folder)
        if part == "proxy":
            own = _PROXY.replace("[filter:copy]", f"{_USER}[filter:copy]")
        else:
            own = _STORAGE.format(part=part)
            _make_ring(folder, part, port)
        (folder / f"{part}.conf").write_text(common + own)


def _make_ring(folder: Path, part: str, port: int) -> None:
    """Make the map of a service's data: all of it is on one device."""
    device = f"r1z1-127.0.0.1:{port}/d1"
    for words in (("create", "4", "1", "0"), ("add", device, "1"), ("rebalance",)):
        command = [PROGRAMS / "swift-ring-builder", folder / f"{part}.builder", *words]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _started(folder: Path, part: str) -> subprocess.Popen[bytes]:
    with (folder / f"{part}.log").open("wb") as log:
        return subprocess.Popen(
            [PROGRAMS / f"swift-{part}-server", folder / f"{part}.conf", "-v"],
            env={**os.environ, "SWIFT_DIR": str(folder)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _await(folder: Path, part: str, port: int) -> None:
    limit = time.monotonic() + LONG
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert time.monotonic() < limit, (folder / f"{part}.log").read_text()
            time.sleep(0.05)


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
