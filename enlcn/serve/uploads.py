"""A picture out of a request's body: counted while it comes, kept in a nameless file, its header read first."""

import asyncio
import io
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request

from enlcn.data import vips_codec, vips_errors
from enlcn.data.image import ImageError
from enlcn.data.image_formats import sniff_format
from enlcn.data.pillow_codec import OPENING
from enlcn.serve.config import ServeConfig
from enlcn.serve.decoding import NAME
from enlcn.serve.forms import FormError, FormFile
from enlcn.serve.problems import Problem, of_image, retry_later
from enlcn.serve.storage import Blob, StorageFullError
from enlcn.serve.studio import Studio

FIELD = "file"
_MULTIPART = "multipart/form-data"
_FORM_OVERHEAD = 2**14  # boundaries and headers around the file
_SNIFFED = 64


@dataclass(frozen=True)
class Header:
    """What a picture's header says: its format and its size as seen."""

    format: str
    width: int
    height: int


def check_length(request: Request, config: ServeConfig) -> None:
    """Refuse a body that announces too many bytes before any is read."""
    try:
        length = int(request.headers.get("content-length", "0"))
    except ValueError:
        raise Problem("bad-request", "Content-Length is no number") from None
    if length > config.max_upload_bytes + _FORM_OVERHEAD:
        raise _too_large(config)


async def receive(request: Request, studio: Studio) -> Blob:
    """The picture of a request: the part named "file" of a form, or the raw body."""
    config = studio.config
    studio.make_room(min(config.max_upload_bytes, int(request.headers.get("content-length", "0"))))
    blob = studio.storage.blob()
    try:
        async with asyncio.timeout(config.upload_seconds):
            if request.headers.get("content-type", "").lower().startswith(_MULTIPART):
                await _receive_form(request, config, blob)
            else:
                async for part in _counted(request, config):
                    blob.write(part)
        if not blob.size:
            raise Problem("bad-request", f"the body is empty; send a picture, or a form with a part named '{FIELD}'")
        return blob
    except BaseException as error:
        blob.close()
        if isinstance(error, TimeoutError):
            raise Problem("upload-too-slow", f"the body did not arrive within {config.upload_seconds:g} s") from None
        if isinstance(error, StorageFullError):
            raise retry_later("storage-full", "no room for the upload right now", studio.retry_after()) from None
        raise


async def _receive_form(request: Request, config: ServeConfig, blob: Blob) -> None:
    try:
        form = FormFile(request.headers["content-type"], FIELD, blob.write)
        async for part in _counted(request, config):
            form.write(part)
    except FormError as error:
        raise Problem("bad-request", f"the form cannot be read: {error}") from None
    if not form.is_complete:
        raise Problem("bad-request", f"the form has no file in a part named '{FIELD}'")


async def _counted(request: Request, config: ServeConfig) -> AsyncGenerator[bytes, None]:
    received = 0
    try:
        async for part in request.stream():
            received += len(part)
            if received > config.max_upload_bytes + _FORM_OVERHEAD:
                raise _too_large(config)
            yield part
    except ClientDisconnect:
        raise Problem("bad-request", "the client went away during the upload") from None


def _too_large(config: ServeConfig) -> Problem:
    limit = config.max_upload_bytes
    return Problem("upload-too-large", f"more than {limit:,} bytes, the limit of one upload", extra={"limit": limit})


async def probe(blob: Blob, studio: Studio) -> Header:
    """The header of an uploaded picture; a problem where it is none, or promises more pixels than are allowed."""
    config = studio.config
    async with studio.probes:
        header = await asyncio.to_thread(_probe, blob)
    pixels = header.width * header.height
    if pixels > config.max_pixels:
        detail = f"{header.width:,}x{header.height:,} is {pixels:,} pixels, the limit is {config.max_pixels:,}"
        raise Problem("too-many-pixels", detail, extra={"limit": config.max_pixels})
    return header


def _probe(blob: Blob) -> Header:
    data = blob.read()
    try:
        format = sniff_format(data[:_SNIFFED], "upload")
    except ImageError as error:
        raise Problem("not-an-image", str(error)) from None
    try:
        read = _by_vips if vips_codec.is_available(format) else _by_pillow
        width, height = read(data, format)
    except Problem:
        raise
    except Exception as error:  # a damaged header can raise nearly anything
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise Problem("damaged-image", f"upload: its header cannot be read ({reason})") from None
    return Header(format, width, height)


def _by_vips(data: bytes, format: str) -> tuple[int, int]:
    pyvips = vips_codec.vips()
    load: Any = getattr(pyvips.Image, f"{vips_codec.LOADERS[format]}load_buffer")
    try:
        with vips_codec.READING:
            opened = load(data, access="sequential")
    except pyvips.Error as error:
        raise of_image(vips_errors.unreadable(error, format, NAME)) from None
    # AVIF is turned by its own transform, which libvips has applied; the others by EXIF.
    if format != "avif" and opened.get_typeof("orientation") and opened.get("orientation") >= 5:
        return opened.height, opened.width
    return opened.width, opened.height


def _by_pillow(data: bytes, format: str) -> tuple[int, int]:
    from PIL import Image as Pillow

    with OPENING, Pillow.open(io.BytesIO(data), formats=[format.upper()]) as opened:
        return opened.size
