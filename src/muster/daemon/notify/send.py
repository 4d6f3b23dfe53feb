"""Tells a subscriber: an HTTP request, or a command. Nothing raises: the answer is what went wrong."""

import asyncio
import contextlib
import os
import socket
import time

from muster.daemon.notify.notice import MOMENT, SIGNATURE, Notice, body_of, signature_of
from muster.daemon.notify.subscription import reaches_daemon

TIMEOUT = 10.0
"""s for a webhook to answer, and for a command to end."""


async def send_webhook(url: str, notice: Notice, secret: str, *, trusted: bool) -> str:
    """Post a notice, signed; return what went wrong. Not `trusted`: not to the daemon's machine."""
    import httpx  # not before it is needed: it would slow the daemon's start

    body, moment = body_of(notice), str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "muster",
        MOMENT: moment,
        SIGNATURE: f"sha256={signature_of(secret, moment, body)}",
    }
    try:
        if not trusted and await _is_own(url):
            return "its name leads to the daemon's own machine"
        async with httpx.AsyncClient(
            timeout=TIMEOUT, follow_redirects=False, trust_env=False
        ) as client:
            answer = await client.post(url, content=body, headers=headers)
    except (httpx.HTTPError, OSError, ValueError) as problem:
        return str(problem) or type(problem).__name__
    return "" if answer.is_success else f"it answered {answer.status_code}"


async def _is_own(url: str) -> bool:
    """Whether a name resolves to an address of the machine itself."""
    import httpx

    host = httpx.URL(url).host
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return any(reaches_daemon(str(address[0])) for *_, address in found)


async def run_command(command: str, notice: Notice) -> str:
    """Run a command with the notice as its input and in its environment; return what went wrong."""
    told = {
        "MUSTER_EVENT": notice.event,
        "MUSTER_TEXT": notice.text,
        "MUSTER_JOB": str(notice.job["number"]),
        "MUSTER_JOB_NAME": str(notice.job["name"]),
        "MUSTER_JOB_USER": str(notice.job["user"]),
    }
    process = await asyncio.create_subprocess_shell(
        command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **told},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            _, said = await process.communicate(body_of(notice))
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()
        return f"it did not end within {TIMEOUT:g} s"
    if process.returncode == 0:
        return ""
    last = said.decode(errors="replace").strip().splitlines()
    return f"it exited with {process.returncode}{f': {last[-1][:200]}' if last else ''}"
