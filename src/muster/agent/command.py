"""The agent's command line. Quick to import: no library that the agent does not need."""

import argparse
import asyncio
import json
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from muster.agent.node.offer import describe
from muster.agent.options import MACHINES, AgentError, AgentOptions
from muster.agent.systemd_unit import unit
from muster.agent.trust.identity import AgentFolder
from muster.agent.trust.join import has_joined, join, read_token
from muster.executors.transit import offer_fields
from muster.wire.agents.join_token import JoinToken, split_address

BAD_INPUT = 2
"""Exit code for what the user can put right, as of the other commands."""

NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
LOG_SIZE = 4 * 2**20
"""Bytes of the agent's own log, of which there is an older one as well."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an agent; return the exit code."""
    given = parser().parse_args(arguments)
    try:
        return _run(given)
    except AgentError as problem:
        print(f"muster: {problem}", file=sys.stderr)
        return BAD_INPUT


def parser() -> argparse.ArgumentParser:
    """Return the parser of the agent's arguments."""
    made = argparse.ArgumentParser("muster agent", description="Run the agent of this node.")
    made.add_argument("--join", default=os.environ.get("MUSTER_JOIN", ""), metavar="TOKEN|FILE")
    made.add_argument("--daemon", action="append", default=[], metavar="HOST:PORT")
    made.add_argument("--folder", type=Path, metavar="DIR")
    made.add_argument("--node", default="", metavar="NAME")
    made.add_argument("--devices", type=int, metavar="N")
    made.add_argument("--device-type", default="", metavar="TYPE")
    made.add_argument("--virtual", action="store_true")
    made.add_argument("--advertise", default="", metavar="ADDRESS")
    made.add_argument("--ports", default="20000-31999", metavar="FIRST-LAST")
    made.add_argument("--label", action="append", default=[], metavar="NAME=VALUE")
    made.add_argument("--rack", default="", metavar="NAME")
    made.add_argument("--engine", default=MACHINES, metavar="NAME")
    made.add_argument("--grace", type=float, metavar="SECONDS")
    made.add_argument("--away", type=float, metavar="SECONDS")
    made.add_argument("--log-format", choices=("text", "json"), default="text")
    made.add_argument("--describe", action="store_true")
    made.add_argument("--systemd", action="store_true")
    return made


def _run(given: argparse.Namespace) -> int:
    if given.grace is not None:
        # Not lost, and not fatal, before the agent can tell of them.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1, signal.SIGTERM))
    token = read_token(given.join) if given.join else None
    options = _options(given, token.node if token else "")
    offered = describe(options)
    if given.describe:
        print(json.dumps(offer_fields(offered.offer), indent=2))
        return 0
    folder = AgentFolder(options.folder)
    folder.lock()
    log = _start_log(folder, given.log_format)
    options = _identified(options, folder, token)
    if given.systemd:
        print(unit(options.node, _repeated(given, options)), end="")
        return 0
    # Imported only now: --describe and errors need none of it.
    from muster.agent.agent import Agent

    offer = offered.offer
    log.info(
        "agent of %s: %d devices of type %s, %g cores, tasks run as %s",
        options.node,
        offer.devices,
        offer.device_type or "-",
        offer.millicores / 1000,
        offer.user or "their submitters",
    )

    async def serve() -> tuple[str, int]:
        agent = Agent(options, folder, offered)
        return await agent.run(), agent.code

    why, code = asyncio.run(serve())
    log.info("the agent ends (%s); its tasks keep running", why)
    return code


def _options(given: argparse.Namespace, invited: str) -> AgentOptions:
    node = given.node or invited or socket.gethostname().partition(".")[0]
    if not NODE.fullmatch(node):
        raise AgentError(
            f"--node: {node!r} is not a name for a node: "
            "up to 63 letters, digits, '.', '_' and '-', the first a letter or digit"
        )
    for address in given.daemon:
        try:
            split_address(address)
        except ValueError as problem:
            raise AgentError(f"--daemon: {problem}") from None
    return AgentOptions(
        folder=(given.folder or default_folder(node)).absolute(),
        node=node,
        daemons=tuple(given.daemon),
        devices=given.devices,
        device_type=given.device_type,
        virtual=given.virtual,
        advertise=given.advertise,
        ports=_ports(given.ports),
        labels=dict(_label(text) for text in given.label),
        rack=given.rack,
        engine=given.engine,
        grace=given.grace,
        away=given.away,
    )


def default_folder(node: str) -> Path:
    """Return the folder of a node's agent: of its own, since homes may be shared by nodes."""
    home = os.environ.get("MUSTER_HOME")
    if home:
        return Path(home) / "agents" / node
    from platformdirs import user_data_path

    return user_data_path("muster") / "agents" / node


def _ports(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 0 < int(first) <= int(last) < 65536):
        raise AgentError(f"--ports: {text!r} is not a range of ports; write 20000-31999")
    return int(first), int(last)


def _label(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not name or not found:
        raise AgentError(f"--label: {text!r} is not a label; write name=value")
    return name, value


def _identified(options: AgentOptions, folder: AgentFolder, token: JoinToken | None) -> AgentOptions:
    """Return the options with the daemon's addresses, after joining if need be."""
    # A token that names the node may replace its identity: that one may have been revoked.
    if token is not None and (token.node == options.node or not has_joined(folder, token)):
        try:
            join(folder, token, options.node)
        except AgentError:
            if not has_joined(folder, token):
                raise
    if not folder.joined:
        raise AgentError(
            f"{folder.path} has no identity; join first: muster agent --join TOKEN "
            "(the daemon's administrator makes one: muster token create --agent)"
        )
    daemons = options.daemons or folder.daemons
    if not daemons:
        raise AgentError(f"{folder.path} does not say where the daemon is; give --daemon HOST:PORT")
    return replace(options, daemons=daemons)


def _repeated(given: argparse.Namespace, options: AgentOptions) -> list[str]:
    """Return the arguments for the next start of an agent that has joined."""
    once = ("join", "describe", "systemd")
    kept = {
        name: value
        for name, value in vars(given).items()
        if name not in once and value != parser().get_default(name)
    }
    return words_of(kept | {"folder": options.folder, "node": options.node})


def words_of(values: Mapping[str, Any]) -> list[str]:
    """Return options as words of a command line; those that are None, empty or False are left out."""
    words: list[str] = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words += [word for each in value for word in (flag, str(each))]
        elif value is not None and value is not False and value != "":
            words += [flag, str(value)]
    return words


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        if record.exc_info:
            entry["trace"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _start_log(folder: AgentFolder, form: str) -> logging.Logger:
    """Log to standard error and to the agent's folder."""
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    formatter = _JsonLines() if form == "json" else plain
    log = logging.getLogger("muster")
    log.setLevel(logging.INFO)
    file = RotatingFileHandler(folder.path / "agent.log", maxBytes=LOG_SIZE, backupCount=1)
    for handler in (logging.StreamHandler(), file):
        handler.setFormatter(formatter)
        log.addHandler(handler)
    return log
