"""The daemon's address and token: from the environment, or from the file that `muster up` writes."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from muster.client.errors import ClientError

HOME = "MUSTER_HOME"
URL = "MUSTER_URL"
TOKEN = "MUSTER_API_TOKEN"
CA = "MUSTER_CA"
INSECURE = "MUSTER_INSECURE"
UNIX = "unix://"
SHARED_SOCKET = Path("/run/muster/muster.sock")
"""Where the daemon of a machine with several users listens by convention."""


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """A daemon's address, a token for it, and the certificates to trust."""

    url: str
    """`unix:///path`, `https://...` or `http://...`."""
    token: str | None = None
    ca: str | None = None
    """A file of certificates, or `sha256:` and the fingerprint of the daemon's own one."""
    http: str | None = None
    """The same daemon's address over HTTP, for other programs."""
    insecure: bool = False
    """Whether to send the token even where strangers could read it."""
    data: str | None = None
    """The daemon's folder, if it is on this machine."""


def settings_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of `client.json`: in `MUSTER_HOME`, or in the user's config folder."""
    home = environ.get(HOME)
    if home:
        return Path(home) / "client.json"
    # Imported only now: most users of the client give the address themselves.
    from platformdirs import user_config_path

    return user_config_path("muster") / "client.json"


def data_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for this user's own files: `MUSTER_HOME`, or the user's data folder."""
    home = environ.get(HOME)
    if home:
        return Path(home).absolute()
    from platformdirs import user_data_path

    return user_data_path("muster")


def read_settings(environ: Mapping[str, str] = os.environ) -> ClientSettings:
    """Return the settings in force. The file's token is used for the file's daemon only."""
    url, token, ca = environ.get(URL), environ.get(TOKEN) or None, environ.get(CA) or None
    insecure = environ.get(INSECURE) == "1"
    kept = kept_settings(environ, needed=not url)
    if kept is not None and (not url or url.rstrip("/") in (kept.url, kept.http)):
        url = (url or kept.url).rstrip("/")
        if not url.startswith(UNIX):  # there the kernel says who we are
            token = token or kept.token
        return ClientSettings(url, token, ca or kept.ca, kept.http, insecure)
    if not url and SHARED_SOCKET.exists():
        url = f"{UNIX}{SHARED_SOCKET}"
    if not url:
        hint = f"start one with muster up, or set {URL} and {TOKEN}"
        raise ClientError(0, "No Daemon", "the address of the daemon is unknown", hint)
    return ClientSettings(url, token, ca, insecure=insecure)


def is_loopback(host: str | None) -> bool:
    """Return whether a host is this machine for certain: by its address, not by a name to resolve."""
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return host == "localhost"


def write_settings(settings: ClientSettings, environ: Mapping[str, str] = os.environ) -> Path:
    """Write the settings for this user's clients only; return the file's path."""
    path = settings_path(environ)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    # Created with its mode: nobody can read the token in between.
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(settings))
    draft.replace(path)
    return path


def kept_settings(
    environ: Mapping[str, str] = os.environ, needed: bool = True
) -> ClientSettings | None:
    """Return what the file says, None without one; ClientError if it is unreadable and needed."""
    path = settings_path(environ)
    try:
        return msgspec.json.decode(path.read_bytes(), type=ClientSettings)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        if not needed:
            return None
        hint = f"remove it and restart the daemon, or set {URL}"
        raise ClientError(0, "Bad Settings", f"{path} cannot be read: {error}", hint) from None
