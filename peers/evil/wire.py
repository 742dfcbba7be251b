"""What both sides share."""

import os
import select
import time

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
MIB = 1 << 20


class Lines:
    """Lines of a descriptor, with a bound on the wait."""

    def __init__(self, fd):
        self.fd = fd
        self.buffer = b""
        self.ended = False

    def next(self, seconds=None):
        """The next line; none: the end, or nothing in time."""
        until = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self.buffer:
            wait = None if until is None else max(0, until - time.monotonic())
            if self.ended or not select.select([self.fd], [], [], wait)[0]:
                return None
            chunk = os.read(self.fd, MIB)
            self.ended = not chunk
            self.buffer += chunk
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line


def write_all(fd, raw):
    view = memoryview(raw)
    while view:
        view = view[os.write(fd, view) :]
