"""How a function can fail as a job, besides by an exception of its own."""


class FunctionError(Exception):
    """A call without a result: its process died, or its exception could not be sent.

    `number`: of its job.
    """

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number

    def __reduce__(self) -> tuple[type["FunctionError"], tuple[str, int]]:
        return type(self), (str(self), self.number)


class RemoteTraceback(Exception):  # noqa: N818 (the name that the standard library uses)
    """The traceback of a task, as the cause of the exception that it raised."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"
