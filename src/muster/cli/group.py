"""Typer commands with quicker help and better errors."""

from typing import Any

from typer.core import TyperCommand, TyperGroup


class QuickGroup(TyperGroup):
    """Avoids pydantic: Typer validates an option that is not given with it, unless its default is a
    flag's; for `--help` of the group that would cost every command a tenth of a second."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option `--help`, false unless given."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.default = False
        return option


class RunCommand(TyperCommand):
    """A command that runs another one, which has options of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual; an unknown option is most likely the script's."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # By name: the class is in whichever copy of click Typer bundles.
            if type(error).__name__ == "NoSuchOption" and hasattr(error, "message"):
                error.message += "; put the script's own options after --"
            raise
