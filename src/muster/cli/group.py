"""Typer's commands and groups, with quicker help, better errors and `--json` everywhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

Declared = TypeVar("Declared", bound=Callable[..., Any])
_ARTIFACT = "Value error, "
"""What pydantic writes before an error, within some releases of Typer."""


class QuickGroup(TyperGroup):
    """Avoids pydantic: Typer validates an option that is not given with it, unless its default is a
    flag's; for `--help` of the group that would cost every command a tenth of a second."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        _hide_types_of_flags(self.params)

    def get_help_option(self, ctx: Any) -> Any:
        """The option `--help`, false unless given."""
        return _unless_given(_plain(super().get_help_option(ctx)))


class MusterCommand(TyperCommand):
    """A command whose help fits any terminal, and which takes `--json` for `--output json`."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.help = _reflowed(self.help or "")
        _hide_types_of_flags(self.params)

    def get_help_option(self, ctx: Any) -> Any:
        """The option `--help`, without a type: it takes no value."""
        return _plain(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual, with a shorter error."""
        try:
            return super().parse_args(ctx, self._spelled_out(args))
        except Exception as error:
            # By name: the class is in whichever copy of click Typer bundles.
            if type(error).__name__ == "BadParameter" and hasattr(error, "message"):
                error.message = error.message.removeprefix(_ARTIFACT)
                if error.message.startswith("'yaml' is not one of"):
                    error.message += self._instead_of_yaml()
            raise

    def _instead_of_yaml(self) -> str:
        """What to type for what others print as YAML: their output, or a job's file."""
        of_job = any(param.name == "which" for param in self.params)
        file = "; the job as a file: muster template save JOB NAME" if of_job else ""
        return f" JSON is valid YAML: -o json{file}"

    def _spelled_out(self, args: list[str]) -> list[str]:
        """Write `--json` as `--output json`, up to `--`, for a command that can print JSON."""
        own = {name for param in self.params for name in param.opts}
        if "--json" in own or "--output" not in own:
            return args
        end = args.index("--") if "--" in args else len(args)
        words = (["--output", "json"] if word == "--json" else [word] for word in args[:end])
        return [word for each in words for word in each] + args[end:]


class QuickCommand(MusterCommand):
    """A command for whose first line somebody waits: it avoids pydantic where values are plain."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option `--help`, false unless given."""
        return _unless_given(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual."""
        for param in self.params:
            param.process_value = _quickly(param)  # type: ignore[method-assign, assignment]
        return super().parse_args(ctx, args)


class RunCommand(QuickCommand):
    """A command that runs another one, which has options of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual; an unknown option is most likely the script's."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if type(error).__name__ == "NoSuchOption" and hasattr(error, "message"):
                error.message += "; put the script's own options after --"
            raise


class Commands(typer.Typer):
    """Commands that are declared together, in a module of their own."""

    def __init__(self, **more: Any) -> None:
        super().__init__(pretty_exceptions_enable=False, **more)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **more: Any
    ) -> Callable[[Declared], Declared]:
        """Declare a command: ours, unless a class is given."""
        return super().command(name, cls=cls or MusterCommand, **more)


def _hide_types_of_flags(params: list[Any]) -> None:
    """Show no type beside a flag: it takes no value, though some releases of Typer write <bool>."""
    for each in params:
        if getattr(each, "is_flag", False):
            each.metavar = each.metavar or ""


def _plain(option: Any) -> Any:
    """Return the option, if any, without a type."""
    _hide_types_of_flags([] if option is None else [option])
    return option


def _reflowed(text: str) -> str:
    """Join the lines of each paragraph, for terminals of any width; examples stay as they are."""
    return "\n\n".join(_joined(each) for each in text.split("\n\n"))


def _joined(paragraph: str) -> str:
    lines = paragraph.split("\n")
    indented = any(line.startswith(" ") for line in lines)
    return paragraph if indented else " ".join(lines)


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
        if kind is int and (number := _number(value, param.type_descriptor.parameter_info)) is not None:
            return number
        if kind is Path and isinstance(value, str) and _is_plain(param.type_descriptor.parameter_info):
            return Path(value)
        return value if _fits(value, kind) else convert(param, ctx, value)

    return process


def _number(value: Any, info: Any) -> int | None:
    """Return a whole number within the bounds of its option; None: Typer says what is wrong."""
    if not (type(value) is int or (isinstance(value, str) and value.isdecimal())):
        return None
    found = int(value)
    low, high = (getattr(info, bound, None) for bound in ("min", "max"))
    return found if (low is None or found >= low) and (high is None or found <= high) else None


def _is_plain(info: Any) -> bool:
    """Whether nothing is asked of a path."""
    return not any(getattr(info, name, False) for name in ("exists", "resolve_path", "path_type"))


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value needs neither conversion nor a check."""
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    return kind in (str, bool) and type(value) is kind
