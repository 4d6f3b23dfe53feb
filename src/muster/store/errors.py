"""What can go wrong with a store."""


class StoreError(Exception):
    """The store did not do what was asked, and why; of a write nothing was written."""


class UnwritableError(StoreError):
    """What was to be written can never be: to try again does not help."""


class UnreadableError(StoreError):
    """What is stored makes no sense to this version."""


class ClaimLostError(StoreError):
    """The store was claimed, and no longer is: another daemon may be the active one by now. Whether a
    write that this interrupted was stored is not known: claim anew, and read the journal's end."""
