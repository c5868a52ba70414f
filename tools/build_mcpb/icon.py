"""Draws the bundle's icon: ``python -m tools.build_mcpb.icon`` writes ``icon.png``.

A speech bubble as a mask, with two eyes and a smile, on a dusk background. Needs numpy only.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ICON = Path(__file__).parent / "icon.png"
SIZE = 512

Plane = NDArray[np.float64]

DUSK, NIGHT, MOON = (124, 92, 214), (38, 28, 84), (255, 247, 232)


def draw() -> bytes:
    """Draw the icon as a PNG."""
    y, x = np.mgrid[0:SIZE, 0:SIZE] + 0.5
    fall = (y / SIZE)[..., None]
    picture = np.array(DUSK) * (1 - fall) + np.array(NIGHT) * fall
    bubble = np.minimum(_box(x, y, (256, 232), (150, 122), 88), _tail(x, y))
    picture = _lay(picture, MOON, bubble)
    picture = _lay(picture, NIGHT, _oval(x, y, (204, 204), (22, 32)))
    picture = _lay(picture, NIGHT, _oval(x, y, (308, 204), (22, 32)))
    picture = _lay(picture, DUSK, _smile(x, y))
    seen = _cover(_box(x, y, (256, 256), (248, 248), 112)) * 255
    return _png(np.rint(np.dstack([picture, seen])).astype(np.uint8))


# --- shapes, as distances in pixels: negative inside


def _box(x: Plane, y: Plane, centre: tuple[int, int], half: tuple[int, int], radius: int) -> Plane:
    across = np.abs(x - centre[0]) - half[0] + radius
    down = np.abs(y - centre[1]) - half[1] + radius
    outside = np.hypot(np.maximum(across, 0), np.maximum(down, 0))
    return outside + np.minimum(np.maximum(across, down), 0) - radius


def _oval(x: Plane, y: Plane, centre: tuple[int, int], half: tuple[int, int]) -> Plane:
    reach = np.hypot((x - centre[0]) / half[0], (y - centre[1]) / half[1])
    return (reach - 1) * min(half)


def _tail(x: Plane, y: Plane) -> Plane:
    """The bubble's tail: what is inside one circle and outside another."""
    return np.maximum.reduce([_oval(x, y, (172, 330), (86, 86)), -_oval(x, y, (112, 330), (88, 88)), 318 - y])


def _smile(x: Plane, y: Plane) -> Plane:
    """An arc of a ring, its ends round."""
    ring = np.abs(np.hypot(x - 256, y - 220) - 76) - 9
    above = np.abs(x - 256) * 0.6 - (y - 220) * 0.8
    ends = np.hypot(np.abs(x - 256) - 76 * 0.8, y - 220 - 76 * 0.6) - 9
    return np.minimum(np.maximum(ring, above), ends)


def _cover(distance: Plane) -> Plane:
    return np.clip(0.5 - distance, 0, 1)


def _lay(picture: Plane, colour: tuple[int, int, int], distance: Plane) -> Plane:
    cover = _cover(distance)[..., None]
    return picture * (1 - cover) + np.array(colour) * cover


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """Write RGBA pixels, each row as its difference to the one above, which a gradient makes small."""
    above = np.vstack([np.zeros_like(pixels[:1]), pixels[:-1]])
    rows = b"".join(b"\x02" + row.tobytes() for row in pixels - above)
    height, width, _ = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


if __name__ == "__main__":
    ICON.write_bytes(draw())
