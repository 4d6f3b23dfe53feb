"""Errors of a store."""


class StoreError(Exception):
    """An operation failed; of a write, nothing was written."""


class UnwritableError(StoreError):
    """The value cannot be stored; retrying does not help."""


class UnreadableError(StoreError):
    """This version cannot read what is stored."""


class ClaimLostError(StoreError):
    """The claim is lost, and another daemon may be active. Whether an interrupted write was stored is
    unknown: claim again and read the end of the journal."""
