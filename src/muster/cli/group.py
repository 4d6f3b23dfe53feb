"""Typer commands with quicker help and better errors."""

from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

from typer.core import TyperCommand, TyperGroup


class QuickGroup(TyperGroup):
    """Avoids pydantic: Typer validates an option that is not given with it, unless its default is a
    flag's; for `--help` of the group that would cost every command a tenth of a second."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option `--help`, false unless given."""
        return _unless_given(super().get_help_option(ctx))


class RunCommand(TyperCommand):
    """A command that runs another one, which has options of its own. Somebody waits for its first line,
    so it avoids pydantic, too."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option `--help`, false unless given."""
        return _unless_given(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual; an unknown option is most likely the script's."""
        for param in self.params:
            param.process_value = _quickly(param)  # type: ignore[method-assign, assignment]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # By name: the class is in whichever copy of click Typer bundles.
            if type(error).__name__ == "NoSuchOption" and hasattr(error, "message"):
                error.message += "; put the script's own options after --"
            raise


def _unless_given(option: Any) -> Any:
    """Return an option with the default of a flag."""
    if option is not None:
        option.default = False
    return option


def _quickly(param: Any) -> Callable[[Any, Any], Any]:
    """Return how to process the value of a parameter: what needs no conversion is taken as it is."""
    convert: Any = type(param).process_value
    # Of releases of Typer that use pydantic; others convert by themselves, which is quick.
    kind = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    several = getattr(param, "multiple", False) or param.nargs == -1

    def process(ctx: Any, value: Any) -> Any:
        if kind is None or param.callback is not None or (param.required and not value):
            return convert(param, ctx, value)
        if value is None:
            return () if several else None
        if several and kind == list[str] and all(isinstance(each, str) for each in value):
            return list(value)
        return value if _fits(value, kind) else convert(param, ctx, value)

    return process


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value needs neither conversion nor a check."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return kind in (str, bool) and type(value) is kind
