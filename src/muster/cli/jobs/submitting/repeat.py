"""Commands that run a job again or keep it for later, and their help. Quick to import."""

from typing import Annotated

import typer

from muster.cli.choices import Output
from muster.cli.connect import daemon
from muster.cli.group import Commands, RunCommand
from muster.cli.jobs.submitting.field_options import FieldOptions
from muster.cli.jobs.submitting.options import RunRequest, Submission
from muster.cli.options import FORMATS, JOBS, Printed, Which, Yes, noun, option, with_options

repeat = Commands()
template = noun("template", "Saved jobs, for `muster run -t NAME`.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the template.")]


@repeat.command(cls=RunCommand, rich_help_panel=JOBS)
@with_options
def rerun(which: Which, request: RunRequest, more: FieldOptions, how: Submission) -> None:
    """Submit a job again, with changes: the same command, folder, environment and devices.

    Words after -- replace the arguments of its script. Jobs that it came after are left out.

    Examples:
      muster rerun 12                            as it was
      muster rerun 12 -d 4 -- --lr 0.01          4 workers, other arguments
      muster rerun bert --set time=2h -l run=b   another field, another label
    """
    from muster.cli.jobs.submitting.rerun import rerun_job

    raise typer.Exit(rerun_job(which, request, how, more))


@template.command("ls")
def template_ls(output: Printed = "text") -> None:
    """List templates: the project's (.muster/templates) and yours.

    Example: muster template ls
    """
    from muster.cli.jobs.submitting.template_file import template_table
    from muster.cli.jobs.submitting.templates import templates
    from muster.cli.render.answers import as_json

    found = templates()
    if output == "json":
        typer.echo(as_json({name: str(path) for name, path in found.items()}))
    else:
        typer.echo(template_table(found))


@template.command("show")
def template_show(name: Name) -> None:
    """Print a template, which is a job file.

    Example: muster template show bert
    """
    from muster.cli.jobs.submitting.templates import template_path

    typer.echo(template_path(name).read_text(encoding="utf-8").rstrip("\n"))


@template.command("save")
def template_save(
    which: Which,
    name: Name,
    project: Annotated[
        bool, option(None, "Save it in this project, for everybody who has it.", "--project")
    ] = False,
    yes: Yes = False,
) -> None:
    """Save a job that was submitted, to run it again with `muster run -t NAME`.

    Its folder and the variables of the shell it came from are left out: it runs where you are.

    Examples:
      muster template save 12 bert
      muster template save 12 bert --project     into .muster/templates
    """
    from muster.cli.jobs.submitting.template_file import save_template

    with daemon() as client:
        raise typer.Exit(save_template(client.request(which), name, project=project, yes=yes))


@repeat.command(rich_help_panel=JOBS)
def status(
    output: Annotated[Output, option(None, FORMATS, "--output", "-o")] = "text",
) -> None:
    """Show in one screen: the cluster, its pools, your jobs, and what needs attention.

    Example: muster status
    """
    from muster.cli.jobs.reading.status import show_status

    show_status(as_json=output == "json")
