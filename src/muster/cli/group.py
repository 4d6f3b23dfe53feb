"""Typer's commands with better manners: help that is quick, errors that say what to do."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class QuickGroup(TyperGroup):
    """Typer checks an option that is not given by pydantic, unless its value is a flag's already; for
    `--help` of the group that would cost every command a tenth of a second."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option `--help`, which is false where it is not given."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


class RunCommand(TyperCommand):
    """A command that runs another one, which has options of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As usual; an option that is not known is most likely the script's."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # By its name: the class is in whichever copy of click Typer brings along.
            if type(error).__name__ == "NoSuchOption" and hasattr(error, "message"):
                error.message += "; options of the script itself go after --"
            raise
