"""Image and document tokens, and the sizes that their first bytes tell (T6)."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.media import CAP_NEW, CAP_OLD, Size, document_tokens, image_size, image_tokens, pdf_pages, size_of_bytes


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def png(width: int, height: int) -> bytes:
    """A whole grey PNG."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    rows = zlib.compress(b"\0" * ((width + 1) * height))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width: int, height: int, *, before: bytes = b"", sof: int = 0xC0) -> bytes:
    """The segments of a JPEG up to its scan."""
    app0 = b"\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0\1\1\0\0\1\0\1\0\0"
    tables = b"\xff\xc4" + struct.pack(">H", 21) + b"\0" * 19
    frame = b"\xff" + bytes([sof]) + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8" + app0 + before + tables + frame + b"\xff\xda"


def exif(length: int) -> bytes:
    return b"\xff\xe1" + struct.pack(">H", length + 2) + b"E" * length


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(kind: bytes, width: int, height: int) -> bytes:
    match kind:
        case b"VP8X":
            body = b"\0\0\0\0" + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
        case b"VP8L":
            body = b"\x2f" + ((width - 1) | (height - 1) << 14).to_bytes(4, "little") + b"\0" * 5
        case _:
            body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF" + struct.pack("<I", 12 + len(body)) + b"WEBP" + kind + struct.pack("<I", len(body)) + body


IMAGES = {
    "png": png(640, 480),
    "gif": gif(640, 480),
    "jpeg": jpeg(640, 480),
    "jpeg, progressive": jpeg(640, 480, sof=0xC2),
    "jpeg, fill bytes": jpeg(640, 480, before=b"\xff\xff"),
    "jpeg, previews before the frame": jpeg(640, 480, before=exif(60_000) + exif(60_000)),
    "webp, lossy": webp(b"VP8 ", 640, 480),
    "webp, lossless": webp(b"VP8L", 640, 480),
    "webp, extended": webp(b"VP8X", 640, 480),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_t6_size_is_read_from_the_first_bytes(kind: str) -> None:
    assert image_size(b64(IMAGES[kind])) == Size(640, 480)


def test_t6_base64_with_line_ends_and_a_cut_end_is_read() -> None:
    assert image_size(base64.encodebytes(png(33, 44)).decode("ascii")) == Size(33, 44)
    assert image_size(b64(png(33, 44))[:50]) == Size(33, 44)


NO_IMAGES = ["", "x", "!!!!", "漢字漢字", *map(b64, [b"BM" + b"\0" * 40, png(5, 5)[:20], gif(0, 7), b"\xff\xd8\xff\xe0"])]


@pytest.mark.parametrize("data", NO_IMAGES)
def test_t6_what_is_no_image_has_no_size(data: str) -> None:
    assert image_size(data) is None


@given(st.sampled_from(sorted(IMAGES)), st.data())
def test_t6_damaged_images_have_a_size_or_none(kind: str, data: st.DataObject) -> None:
    raw = bytearray(IMAGES[kind][:300])
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    size = size_of_bytes(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    assert size is None or min(size) > 0


@pytest.mark.parametrize(
    ("size", "cap", "expected"),
    [
        (Size(1, 1), CAP_OLD, 1),
        (Size(28, 28), CAP_OLD, 1),
        (Size(29, 28), CAP_OLD, 2),
        (Size(200, 100), CAP_OLD, 8 * 4),
        (Size(1000, 1000), CAP_OLD, 36 * 36),
        (Size(1092, 1092), CAP_OLD, 39 * 39),
        (Size(3136, 1568), CAP_OLD, 56 * 28),  # long edge to 1568 px: 56 x 28 patches, exactly the limit
        (Size(1568, 1568), CAP_OLD, 1568),  # 56 x 56 patches: over the token limit, scaled down to it
        (Size(8000, 80), CAP_OLD, 56 * 1),
        (Size(1568, 1568), CAP_NEW, 56 * 56),
        (Size(2576, 1000), CAP_NEW, 92 * 36),
        (Size(5152, 2000), CAP_NEW, 92 * 36),
        (Size(8000, 8000), CAP_NEW, CAP_NEW),
        (None, CAP_OLD, 2000),
        (None, CAP_NEW, CAP_NEW),
    ],
)
def test_t6_image_tokens_follow_the_published_formula(size: Size | None, cap: int, expected: int) -> None:
    assert image_tokens(size, cap) == min(expected, cap if size else expected)


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.sampled_from([CAP_OLD, CAP_NEW]))
def test_t6_an_image_costs_at_least_one_token_and_at_most_its_cap(width: int, height: int, cap: int) -> None:
    tokens = image_tokens(Size(width, height), cap)
    assert 1 <= tokens <= cap
    assert tokens == image_tokens(Size(height, width), cap)


def pdf(pages: int, *, packed: int = 0, extra: bytes = b"") -> bytes:
    """A PDF with page objects in the open and ``packed`` ones in a compressed object stream."""
    opened = b"".join(b"%d 0 obj\n<< /Type /Page /Parent 2 0 R >>\nendobj\n" % (10 + i) for i in range(pages))
    stream = b""
    if packed:
        body = zlib.compress(b"\n".join(b"<</Type/Page/Parent 2 0 R>>" for _ in range(packed)) + b"<</Type/Pages/Count 9>>")
        stream = b"5 0 obj\n<< /Type /ObjStm /N %d /First 8 /Filter /FlateDecode /Length %d >>\nstream\r\n%s\nendstream\nendobj\n" % (
            packed,
            len(body),
            body,
        )
    return b"%PDF-1.5\n2 0 obj\n<< /Type /Pages /Count 99 >>\nendobj\n" + opened + stream + extra + b"trailer\n%%EOF\n"


def test_t6_pdf_pages_are_counted_in_the_open_and_in_object_streams() -> None:
    assert pdf_pages(b64(pdf(3))) == 3
    assert pdf_pages(b64(pdf(0, packed=12))) == 12
    assert pdf_pages(b64(pdf(1, packed=2))) == 3


def test_t6_pdf_whose_pages_cannot_be_read_is_unknown() -> None:
    broken = pdf(1, packed=2).replace(b"stream\r\n", b"stream\r\nX")
    for data in ("", "no pdf", b64(b"%PDF-1.4\n"), b64(broken), b64(pdf(2, extra=b"<< /Encrypt 9 0 R >>"))):
        assert pdf_pages(data) is None


def test_t6_pdf_that_inflates_without_end_is_unknown() -> None:
    bomb = zlib.compress(b"\0" * (80 << 20), 9)
    data = b"%PDF-1.5\n1 0 obj\n<< /Type /Page >>\n5 0 obj\n<< /Type /ObjStm >>\nstream\n" + bomb
    assert len(bomb) < 100_000
    assert pdf_pages(b64(data)) is None


def test_t6_document_tokens() -> None:
    assert document_tokens(4, CAP_OLD) == 4 * (3000 + 1568)
    assert document_tokens(1, CAP_NEW) == 3000 + 4784
    assert document_tokens(None, CAP_NEW) == 2000
