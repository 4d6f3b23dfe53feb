"""`muster accuracy`: how forecasts came true. Imports stay inside so that help is quick."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from muster.cli.connect import daemon
from muster.cli.exits import NOT_FOUND
from muster.cli.group import Commands
from muster.cli.options import JOBS, Printed, option

if TYPE_CHECKING:
    from muster.wire.api.foresight_records import AccuracyRecord

accuracy = Commands()


@accuracy.command("accuracy", rich_help_panel=JOBS)
def show(
    what: Annotated[
        Literal["finish", "start"], option(None, "Forecasts of this moment.", "--of")
    ] = "finish",
    since: Annotated[
        str, option(None, "Made since so long ago, or since a date.", "--since", metavar="TIME|DATE")
    ] = "30d",
    pool: Annotated[
        str | None, option(None, "Only of jobs of this pool.", "--pool", metavar="POOL")
    ] = None,
    output: Printed = "text",
) -> None:
    """Show how the forecasts of jobs came true, by when they were made, time left, pool and kind.

    Covered: outcomes within the 80% interval; 80% is right, more is too wide. Early and late: outcomes
    before and after it. Error: median distance of the predicted time, over the time that was left.
    Width: the interval's far end over its near end. The diagram shows how many outcomes came before
    each quantile: on the diagonal they are as probable as was said. Jobs that somebody stopped do not
    count.

    Examples:
      muster accuracy
      muster accuracy --of start --since 7d
      muster accuracy --pool research -o json
    """
    import time

    from muster.cli.jobs.select import note_unknown_pool
    from muster.cli.parse import moment_of
    from muster.cli.render.accuracy_page import accuracy_page
    from muster.cli.render.answers import as_json

    moment = max(0.0, moment_of("--since", since, time.time()))
    with daemon() as client:
        found: AccuracyRecord = client.accuracy(what, since=moment, pool=pool)
        # One that was removed has had forecasts.
        if not found.forecasts and note_unknown_pool(client, pool):
            raise typer.Exit(NOT_FOUND)
    typer.echo(as_json(found) if output == "json" else accuracy_page(found))
