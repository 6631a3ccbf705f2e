"""Document pages that the tests draw themselves as PNG images, and an eye that reads them back from the
pixels alone.
"""

from __future__ import annotations

import base64
import struct
import zlib

FONT = {
    "0": "111 101 101 101 111",
    "1": "010 110 010 010 111",
    "2": "111 001 111 100 111",
    "3": "111 001 111 001 111",
    "4": "101 101 111 001 001",
    "5": "111 100 111 001 111",
    "6": "111 100 111 101 111",
    "7": "111 001 001 001 001",
    "8": "111 101 111 101 111",
    "9": "111 101 111 001 111",
}
"""Digits of three by five dots, row by row."""
DOT = 4
"""Pixels of a dot, each way."""


def draw(digits: str) -> bytes:
    """A page with some digits, black on white."""
    rows = ["0".join(FONT[digit].split()[row] for digit in digits) for row in range(5)]
    lines = ["".join(dot * DOT for dot in row) for row in rows for _ in range(DOT)]
    pixels = b"".join(b"\0" + bytes(0 if dot == "1" else 255 for dot in line) for line in lines)
    head = struct.pack(">IIBBBBB", len(lines[0]), len(lines), 8, 0, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(pixels)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def read(url: str) -> str:
    """The digits on a page that came as a data URI."""
    kind, _, data = url.partition(";base64,")
    assert kind == "data:image/png"
    image = base64.b64decode(data)
    width, height = struct.unpack(">II", image[16:24])
    start = image.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", image[start - 8 : start - 4])
    pixels = zlib.decompress(image[start : start + length])
    lines = [pixels[row * (width + 1) + 1 : (row + 1) * (width + 1)] for row in range(0, height, DOT)]
    rows = ["".join("1" if line[x] == 0 else "0" for x in range(0, width, DOT)) for line in lines]
    known = {shape: digit for digit, shape in FONT.items()}
    return "".join(known[" ".join(row[at : at + 3] for row in rows)] for at in range(0, len(rows[0]), 4))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
