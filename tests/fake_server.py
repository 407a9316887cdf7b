"""Servers that do not keep to the protocol."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

RespondFunction = Callable[[socket.socket], None]


class FakeServer(socketserver.ThreadingTCPServer):
    """Takes any request, keeps it, and answers whatever it likes."""

    daemon_threads = True

    def __init__(self, answer: bytes | RespondFunction) -> None:
        self.answer, self.heard = answer, list[bytes]()
        super().__init__(("127.0.0.1", 0), _FakeServerHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _FakeServerHandler(socketserver.BaseRequestHandler):
    server: FakeServer

    def handle(self) -> None:
        self.server.heard.append(self.request.recv(65_536))
        with suppress(OSError):
            if callable(self.server.answer):
                self.server.answer(self.request)
            else:
                self.request.sendall(self.server.answer)


@contextmanager
def run_fake_server(answer: bytes | RespondFunction) -> Iterator[FakeServer]:
    with FakeServer(answer) as liar:
        thread = threading.Thread(target=liar.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield liar
        finally:
            liar.shutdown()
            thread.join()
