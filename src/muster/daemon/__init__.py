"""The driver on the real clock: events in, journal, fold, decide, commands out."""
