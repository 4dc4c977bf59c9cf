"""The digits: wrong labels or a padded frame would train, only worse; a hostile file must be refused cheaply."""

import gzip
import hashlib

import numpy as np
import pytest

from fastinit.cli import main as cli
from fastinit.lessons import digits as module
from fastinit.lessons.digits import load_digits, read_digits

# Of scikit-learn 1.x's load_digits(): images as uint8, row-major; labels as uint8.
IMAGES = "8f26b2bd9d135c256808f68f14fdabddde6d9c7f869ae419704b051f0f14b3b3"
LABELS = "8ba4f891220f5e4c9c819638d1602d74b83618f167043c6da52a2a247841ddf0"


def hashed(array):
    return hashlib.sha256(np.ascontiguousarray(array, dtype=np.uint8)).hexdigest()


def joined(digits):
    """All images and labels in the stored order: the held-out ones are those at 4, 9, 14, ..."""
    count = len(digits.labels) + len(digits.held_out_labels)
    held_out = np.arange(count) % 5 == 4
    images, labels = np.empty((count, digits.pixels)), np.empty(count, np.uint8)
    images[held_out], images[~held_out] = digits.held_out_images, digits.images
    labels[held_out], labels[~held_out] = digits.held_out_labels, digits.labels
    return images, labels


def test_the_stored_digits_are_the_published_ones():
    images, labels = joined(load_digits(8))
    assert (hashed(images * 16), hashed(labels)) == (IMAGES, LABELS)


def test_the_stored_digits_are_scikit_learns():
    datasets = pytest.importorskip("sklearn.datasets")
    theirs = datasets.load_digits()
    assert (hashed(theirs.images), hashed(theirs.target)) == (IMAGES, LABELS)


def test_every_fifth_image_is_held_out():
    digits = load_digits(8)
    assert (digits.images.shape, digits.held_out_images.shape) == ((1438, 64), (359, 64))
    assert sorted(set(digits.held_out_labels)) == list(range(10))


def interpolated(image, side):
    """Bilinear interpolation at the centers of `side` by `side` pixels, one at a time."""
    out = np.empty((side, side))
    stored = len(image)
    for i in range(side):
        for j in range(side):
            y, x = (min(max((k + 0.5) * stored / side - 0.5, 0.0), stored - 1.0) for k in (i, j))
            top, left = min(int(y), stored - 2), min(int(x), stored - 2)
            v, u = y - top, x - left
            corners = image[top : top + 2, left : left + 2]
            out[i, j] = (np.outer([1 - v, v], [1 - u, u]) * corners).sum()
    return out


def test_enlarging_interpolates_and_never_pads():
    """A frame of zeros around 8x8 would leave 720 of 784 inputs without a signal, and fan_in would count them."""
    small, large = load_digits(8), load_digits()
    for index in (0, 700, 1437):
        expected = interpolated(small.images[index].reshape(8, 8), 28)
        np.testing.assert_allclose(large.images[index].reshape(28, 28), expected, rtol=0, atol=1e-14)
    assert (large.images.min(), large.images.max()) == (0.0, 1.0)
    assert np.array_equal(large.labels, small.labels)


def test_digits_cannot_be_made_smaller():
    with pytest.raises(ValueError, match="at least 8, got 7"):
        load_digits(7)


PIXELS = np.arange(7 * 2 * 3, dtype=np.uint8).reshape(7, 2, 3) * 6
CLASSES = np.array([0, 9, 1, 2, 3, 4, 5], np.uint8)


def idx(array, magic=None, shape=None):
    start = bytes((0, 0, 8, array.ndim)) if magic is None else magic
    lengths = b"".join(n.to_bytes(4, "big") for n in (array.shape if shape is None else shape))
    return start + lengths + array.tobytes()


def files(folder, *contents):
    paths = []
    for number, content in enumerate(contents):
        paths.append(folder / f"file-{number}")
        paths[-1].write_bytes(content)
    return paths


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_idx_files_are_read_plain_and_gzipped(tmp_path, pack):
    digits = read_digits(*files(tmp_path, pack(idx(PIXELS)), pack(idx(CLASSES))))
    images, labels = joined(digits)
    assert np.array_equal(images * 255, PIXELS.reshape(7, 6))
    assert np.array_equal(labels, CLASSES)
    assert digits.held_out_labels.tolist() == [3]


def test_held_out_files_are_held_out(tmp_path):
    digits = read_digits(*files(tmp_path, idx(PIXELS), idx(CLASSES), idx(PIXELS[:2]), idx(CLASSES[:2])))
    assert (len(digits.labels), digits.held_out_labels.tolist()) == (7, [0, 9])


GOOD = (idx(PIXELS), idx(CLASSES))
REFUSED = [
    ("an empty file", (b"", GOOD[1]), "no idx file of images"),
    ("text", (b"P5 28 28 255 and so on", GOOD[1]), "0x50352032"),
    ("labels for images", (GOOD[1], GOOD[1]), "0x00000803"),
    ("images for labels", (GOOD[0], GOOD[0]), "no idx file of labels"),
    ("floats", (idx(PIXELS, magic=b"\0\0\x0d\3"), GOOD[1]), "0x00000d03"),
    ("a cut-off header", (GOOD[0][:15], GOOD[1]), "3 lengths"),
    ("a cut-off image", (GOOD[0][:-1], GOOD[1]), "states 42 bytes of content; it has only 41"),
    ("a byte too many", (GOOD[0] + b"\0", GOOD[1]), "states 42 bytes of content; it has more"),
    ("more than can be", (idx(PIXELS, shape=[2**32 - 1] * 3), GOOD[1]), "at most 67,108,864"),
    ("no images", (idx(PIXELS[:0]), GOOD[1]), "empty"),
    ("images without pixels", (idx(PIXELS[:0], shape=(7, 0, 2**32 - 1)), GOOD[1]), "empty"),
    ("a digit of 10", (GOOD[0], idx(CLASSES + 1)), "label 1 is 10"),
    ("a label too few", (GOOD[0], idx(CLASSES[:6])), "7 images, but .* 6 labels"),
    ("too few to hold one out", (idx(PIXELS[:4]), idx(CLASSES[:4])), "at least 5"),
    ("held-out images alone", (*GOOD, GOOD[0]), "together, or neither"),
    ("held-out images of another size", (*GOOD, idx(PIXELS.transpose(0, 2, 1)), GOOD[1]), "3x2 pixels"),
    ("a cut-off gzip", (gzip.compress(GOOD[0])[:-9], GOOD[1]), "broken or cut-off gzip"),
    ("half a gzip header", (b"\x1f\x8b\x08", GOOD[1]), "broken or cut-off gzip"),
    ("a wrong gzip method", (b"\x1f\x8b\x07" + bytes(20), GOOD[1]), "broken or cut-off gzip"),
    ("spoilt gzip content", (gzip.compress(GOOD[0])[:10] + b"\xff" * 40, GOOD[1]), "broken or cut-off gzip"),
    ("a gzip that unpacks to 256 MiB", (gzip.compress(GOOD[0] + bytes(1 << 28), 1), GOOD[1]), "has more"),
]


@pytest.mark.parametrize(("contents", "said"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_file_that_is_not_what_it_states_is_refused(tmp_path, contents, said):
    with pytest.raises(ValueError, match=said):
        read_digits(*files(tmp_path, *contents))


def test_no_more_is_unpacked_than_the_header_states(tmp_path, monkeypatch):
    """A small gzip file can unpack to any size."""
    asked = []

    class Spy(gzip.GzipFile):
        def read(self, size=-1):
            asked.append(size)
            return super().read(size)

    monkeypatch.setattr(module.gzip, "open", lambda file: Spy(fileobj=file))
    read_digits(*files(tmp_path, *map(gzip.compress, GOOD)))
    assert asked == [16, 43, 8, 8]


def test_a_folder_is_no_file_and_a_missing_one_is_named(tmp_path):
    with pytest.raises(ValueError, match="Is a directory"):
        read_digits(tmp_path, tmp_path)
    with pytest.raises(ValueError, match="absent: No such file"):
        read_digits(tmp_path / "absent", tmp_path / "absent")


@pytest.mark.parametrize("option", ["--images", "--pretrained"])
def test_a_file_that_is_not_there_is_refused_in_words(capsys, tmp_path, option):
    """`[Errno 2] No such file` names neither the program nor its attempt to read."""
    absent = tmp_path / "absent"
    labels = ["--labels", str(absent)] if option == "--images" else []
    assert cli.main(["train", option, str(absent), *labels, "--epochs", "1", "--seeds", "1"]) == 2
    assert capsys.readouterr().err == f"fastinit: cannot read {absent}: No such file or directory\n"
