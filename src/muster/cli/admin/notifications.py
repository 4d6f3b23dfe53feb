"""`muster notify`. Imports stay inside the commands so that help is quick."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.connect import daemon
from muster.cli.options import Listed, noun, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster.wire.api.use_records import SubscriptionRecord

notify = noun("notify", "Be told what becomes of jobs: webhooks, and commands of administrators.")

_LISTING = "muster notify list"
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the subscription.")]


@notify.command("list")
def list_(output: Listed = "table") -> None:
    """List your subscriptions and how they have gone; everybody's for an administrator."""
    from muster.cli.render.answers import as_json

    with daemon(listing=_LISTING) as client:
        found = client.subscriptions()
    typer.echo(as_json(found) if output == "json" else _table(found))


@notify.command()
def add(
    name: Name,
    webhook: Annotated[str, option(None, "Where to post notices.", metavar="URL")] = "",
    command: Annotated[
        str,
        option(
            None,
            "What the daemon runs instead, with the notice as its input and in MUSTER_EVENT, "
            "MUSTER_TEXT and MUSTER_JOB. For administrators.",
            metavar="COMMAND",
        ),
    ] = "",
    on: Annotated[
        list[str] | None,
        option(
            None,
            "started, succeeded, failed, stopped, preempted or waiting; repeatable, or joined by "
            "commas. (default: succeeded and failed)",
            metavar="WHAT",
        ),
    ] = None,
    patience: Annotated[
        str, option(None, "After how long a job has waited too long.", metavar="TIME")
    ] = "30m",
    pool: Annotated[str, option(None, "Only of jobs in this pool.", "--pool", metavar="NAME")] = "",
    everybody: Annotated[
        bool, option(None, "Of all users' jobs. For administrators.", "--everybody")
    ] = False,
) -> None:
    """Add a subscription, or replace the one of this name.

    A webhook gets JSON with `text`, a line that Slack and Mattermost show as it is, `event` and `job`.
    It is signed with your key (muster notify key) and tried again for more than an hour if it does not
    answer with a 2xx.

    Examples:
      muster notify add chat --webhook https://hooks.example.org/T0/B1
      muster notify add stuck --webhook https://hooks.example.org/T0/B1 --on waiting --patience 2h
      muster notify add mail --on failed --everybody --command 'mail -s "$MUSTER_TEXT" ops'
    """
    from muster.cli.parse import seconds_of

    given = {"on": _happenings(on)} if on else {}
    with daemon(listing=_LISTING) as client:
        made = client.subscribe(
            name,
            webhook=webhook,
            command=command,
            patience=seconds_of("--patience", patience),
            pool=pool,
            everybody=everybody,
            **given,
        )
    typer.echo(_table([made]))


@notify.command()
def remove(name: Name) -> None:
    """Remove a subscription; what was on its way is dropped."""
    with daemon(listing=_LISTING) as client:
        client.unsubscribe(name)
    typer.echo(f"subscription {name} removed")


@notify.command()
def test(name: Name) -> None:
    """Tell a subscriber of something that did not happen, and say how it went; exit 1 if it did not."""
    with daemon(listing=_LISTING) as client:
        trial = client.try_subscription(name)
    if not trial.told:
        typer.echo(f"muster: {name} could not be told: {trial.error}", err=True)
        raise typer.Exit(1)
    typer.echo(f"{name} was told")


@notify.command()
def key() -> None:
    """Print the key that your notices are signed with; see docs/how-to/notifications.md."""
    with daemon(listing=_LISTING) as client:
        typer.echo(client.notify_secret())


def _happenings(given: "Sequence[str]") -> list[str]:
    """Return what to tell of, given one by one or joined by commas."""
    from muster.files.errors import InputError, one_of
    from muster.model.happening import Happening

    words = [word.strip() for text in given for word in text.split(",")]
    for word in words:
        if word not in list(Happening):
            raise InputError.at("--on", one_of(word, "thing to tell of", Happening))
    return words


def _table(found: "Sequence[SubscriptionRecord]") -> str:
    from muster.cli.render.table import table

    if not found:
        return "no subscriptions; add one with: muster notify add NAME --webhook URL"
    rows = [
        (
            each.name,
            each.user,
            ",".join(each.on),
            f"{'everybody' if each.everybody else each.user}{f' in {each.pool}' if each.pool else ''}",
            each.webhook or each.command,
            str(each.told),
            str(each.pending),
            str(each.given_up),
            each.error or "-",
        )
        for each in found
    ]
    heading = ("NAME", "USER", "ON", "JOBS OF", "TO", "TOLD", "WAITING", "GIVEN UP", "LAST ERROR")
    return table(heading, rows, left=(0, 1, 2, 3, 4, 8))
