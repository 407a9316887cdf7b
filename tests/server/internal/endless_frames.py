"""Says frames without end, as a process that counts would say those of a long answer."""

import sys

FRAME = b"x" * 100_000

if __name__ == "__main__":
    while True:
        sys.stdout.buffer.write(len(FRAME).to_bytes(4, "big") + FRAME)
