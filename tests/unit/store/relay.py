"""A relay in front of a PostgreSQL server, which counts how often its clients wait for an answer."""

import socket
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

SOCKET = ".s.PGSQL.5432"


class Relay:
    """Passes on what both sides say, from a socket in a folder to that of the server behind a URL."""

    def __init__(self, folder: Path, url: str) -> None:
        split = urlsplit(url)
        (self._behind,) = parse_qs(split.query)["host"]
        self.url = f"postgresql://{split.username}@{split.path}?host={folder}"
        self.asked = 0
        """Turns of a client: however much it says at once, it waits for one answer."""
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / SOCKET))
        self._listening.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{self._behind}/{SOCKET}")
            threading.Thread(target=self._pass, args=(client, server, 1), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, 0), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, turn: int) -> None:
        with suppress(OSError), one, other:  # the other way may have ended first
            while said := one.recv(1 << 20):
                self.asked += turn
                other.sendall(said)
            other.shutdown(socket.SHUT_RDWR)
