"""`muster open`: the dashboard, logged in. Imports stay inside the command so that help is quick."""

from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.group import Commands
from muster.cli.options import DAEMON, option

page = Commands()


@page.command("open", rich_help_panel=DAEMON)
def show(
    no_browser: Annotated[bool, option(None, "Only print the address.", "--no-browser", "-n")] = False,
) -> None:
    """Open the daemon's dashboard in a browser, logged in as you.

    Prints an address that is good once, for a minute: open it on any machine that reaches the daemon.

    Examples:
      muster open
      muster open -n      print the address, for a browser elsewhere
    """
    import webbrowser

    from muster.client.connecting.settings import UNIX, read_settings
    from muster.client.errors import ClientError

    with daemon() as client:
        settings = read_settings()
        address = settings.http if settings.url.startswith(UNIX) else settings.url
        if address is None:
            hint = "set MUSTER_URL to the address that its `muster up` prints"
            raise ClientError(0, "No Address", "the daemon's address over HTTP is unknown", hint)
        link = f"{address}/#login={client.session_code()}"
    typer.echo(link)
    if not no_browser:
        webbrowser.open(link)
