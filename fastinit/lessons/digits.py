"""Handwritten digits for the lessons: the small set in the package, or any files in MNIST's idx format.

``digits.npz`` holds the 1,797 images, 8 by 8 pixels of 0 to 16, of the test part of "Optical Recognition of
Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998, UCI Machine Learning Repository, doi.org/10.24432/C50P49,
licence CC BY 4.0), in the order in which scikit-learn ships them, the values unchanged.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .._files.opening import open_file

Floats = npt.NDArray[np.float64]
"""Images, and weights."""
Integers = npt.NDArray[np.intp]
"""Labels."""
PathLike = str | os.PathLike[str]
"""The name of a file."""

CLASSES = 10
"""The digits are 0 to 9."""
IDX_LIMIT = 1 << 26
"""The most bytes of pixels that an idx file may state: MNIST's 60,000 images have 47,040,000."""

_STORED_SIDE, _WHITE = 8, 16  # pixels a side of the stored images, and their brightest value
_FOLD = 5  # every fifth image is held out


@dataclass(frozen=True, slots=True, eq=False)
class Digits:
    """Images to train with and images held out, with their labels.

    Attributes
    ----------
    source : str
        Where they are from.
    images, held_out_images : numpy.ndarray
        [images, pixels] in float64; pixels are row-major, from 0 (background) to 1.
    labels, held_out_labels : numpy.ndarray
        [images], 0 to 9.
    """

    source: str
    images: Floats
    labels: Integers
    held_out_images: Floats
    held_out_labels: Integers

    @property
    def pixels(self) -> int:
        """Pixels in an image."""
        return int(self.images.shape[1])


def load_digits(side: int = 28) -> Digits:
    """Return the digits that come with the package, `side` by `side` pixels.

    Parameters
    ----------
    side : int, default 28
        8 leaves the images as they are. A larger side interpolates them bilinearly, so that every pixel carries
        signal; a frame of zeros would only make fan_in count inputs that never differ from 0.

    Returns
    -------
    Digits
        Pixels in float64 from 0 to 1, and labels.

    Raises
    ------
    ValueError
        If `side` is below 8: the images can only be enlarged.

    Notes
    -----
    Held out is every fifth image, the one at index 4, 9, 14, ...: 359 of 1,797. The 13 writers are on both sides;
    an unknown writer is harder.

    Examples
    --------
    >>> from fastinit.lessons.digits import load_digits
    >>> digits = load_digits()
    >>> digits.images.shape, digits.held_out_images.shape
    ((1438, 784), (359, 784))
    """
    if side < _STORED_SIDE:
        raise ValueError(
            f"the stored images are 8 by 8 and can only be enlarged; side must be at least 8, got {side}"
        )
    with (
        resources.files("fastinit.lessons").joinpath("digits.npz").open("rb") as file,
        np.load(file) as stored,
    ):
        images, labels = stored["images"], stored["labels"]
    enlarged = _enlarged(images / _WHITE, side)
    size = "8x8" if side == _STORED_SIDE else f"8x8, enlarged to {side}x{side}"
    return _split(f"UCI optical digits, {size}", enlarged, labels)


def read_digits(
    images: PathLike,
    labels: PathLike,
    held_out_images: PathLike | None = None,
    held_out_labels: PathLike | None = None,
) -> Digits:
    """Read digits from idx files (MNIST's format), gzipped or not.

    Parameters
    ----------
    images, labels : path
        Images of one byte a pixel, and as many labels of 0 to 9.
    held_out_images, held_out_labels : path, optional
        Both or neither; without them every fifth image is held out.

    Returns
    -------
    Digits
        Pixels in float64 from 0 to 1, and labels.

    Raises
    ------
    ValueError
        If a file cannot be read, has another header, is longer or shorter than its header states, states more than
        67,108,864 pixels, or does not fit the others.
    """
    if (held_out_images is None) != (held_out_labels is None):
        raise ValueError("give the held-out images and their labels together, or neither")
    pixels, classes = _read_pair(images, labels)
    if held_out_images is None or held_out_labels is None:
        if len(pixels) < _FOLD:
            raise ValueError(
                f"{images} holds {len(pixels)} images; at least {_FOLD} are needed to hold every fifth out"
            )
        return _split(str(images), pixels, classes)
    held_out = _read_pair(held_out_images, held_out_labels)
    if held_out[0].shape[1:] != pixels.shape[1:]:
        raise ValueError(
            f"{held_out_images} has images of {_by(held_out[0])} pixels, but those of {images} have {_by(pixels)}"
        )
    return Digits(str(images), _flat(pixels), classes, _flat(held_out[0]), held_out[1])


def _split(source: str, images: Floats, labels: npt.NDArray[Any]) -> Digits:
    held_out = np.arange(len(images)) % _FOLD == _FOLD - 1
    flat, classes = _flat(images), labels.astype(np.intp)
    return Digits(source, flat[~held_out], classes[~held_out], flat[held_out], classes[held_out])


def _enlarged(images: Floats, side: int) -> Floats:
    """Interpolate bilinearly between the pixels' centers; beyond the outermost ones repeat the edge."""
    stored = images.shape[1]
    centers = (np.arange(side) + 0.5) * stored / side - 0.5
    weights = np.stack([np.interp(centers, np.arange(stored), unit) for unit in np.eye(stored)], axis=1)
    enlarged: Floats = weights @ images @ weights.T
    return enlarged


def _flat(images: Floats) -> Floats:
    return images.reshape(len(images), -1)


def _by(images: Floats) -> str:
    return "x".join(map(str, images.shape[1:]))


def _read_pair(images: PathLike, labels: PathLike) -> tuple[Floats, Integers]:
    pixels, classes = _read_idx(images, 3), _read_idx(labels, 1)
    if len(pixels) != len(classes):
        raise ValueError(f"{images} holds {len(pixels)} images, but {labels} has {len(classes)} labels")
    if classes.max() >= CLASSES:
        wrong = int(np.argmax(classes >= CLASSES))
        raise ValueError(f"{labels}: label {wrong} is {classes[wrong]}; digits are 0 to 9")
    return pixels / 255.0, classes.astype(np.intp)


def _read_idx(path: PathLike, axes: int) -> npt.NDArray[np.uint8]:
    """Read an idx file of bytes with so many axes: 0, 0, 8, axes; the lengths as big-endian words; the bytes."""
    path = Path(path)
    with open_file(path, ValueError) as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        try:
            with gzip.open(raw) if compressed else raw as file:
                header = file.read(4 + 4 * axes)
                shape = _idx_shape(header, axes, path)
                content = file.read(math.prod(shape) + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is a broken or cut-off gzip file: {error}") from error
    if len(content) != math.prod(shape):
        found = "more" if len(content) > math.prod(shape) else f"only {len(content):,}"
        raise ValueError(f"{path}: its header states {math.prod(shape):,} bytes of content; it has {found}")
    return np.frombuffer(content, np.uint8).reshape(shape)


def _idx_shape(header: bytes, axes: int, path: Path) -> tuple[int, ...]:
    magic = bytes((0, 0, 8, axes))
    if len(header) < 4 + 4 * axes or header[:4] != magic:
        kind = "images" if axes == 3 else "labels"
        raise ValueError(
            f"{path} is no idx file of {kind}: it starts with 0x{header[:4].hex()}, and they start with "
            f"0x{magic.hex()} and {axes} length{'s' if axes > 1 else ''}"
        )
    shape = tuple(int.from_bytes(header[start : start + 4]) for start in range(4, len(header), 4))
    if 0 in shape:
        raise ValueError(f"{path} is empty: its header states {'x'.join(map(str, shape))} bytes of content")
    if math.prod(shape) > IDX_LIMIT:
        raise ValueError(f"{path}: its header states {math.prod(shape):,} bytes; at most {IDX_LIMIT:,} are read")
    return shape
