"""`muster why`: a job's story. Imports stay inside so that help is quick."""

from typing import Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.group import Commands
from muster.cli.options import JOBS, Printed, Which, option

stories = Commands()


@stories.command("why", rich_help_panel=JOBS)
def tell_story(
    which: Which,
    every: Annotated[bool, option(None, "All of it, not a dozen lines.", "--all", "-a")] = False,
    brief: Annotated[
        bool, option(None, "Do not look for what would help: that takes a while.", "--no-advice")
    ] = False,
    output: Printed = "text",
) -> None:
    """Tell a job's story: what it waited for, where it started, who resized or preempted it and why,
    what that gained and cost; of a live one also what it competes with and what would help it.

    Also of jobs that are over, as long as they are listed.

    Examples:
      muster why 12
      muster why resnet50 --json
    """
    import time

    from muster.cli.render.answers import as_json
    from muster.cli.render.story_page import story_page

    with daemon() as client:
        found = client.story(which, advice=not brief, every=every)
    typer.echo(as_json(found) if output == "json" else story_page(found, time.time()))
