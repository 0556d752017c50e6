"""One picture through the upscaler: the same steps as `enlcn upscale`, so the same bytes come out."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from enlcn.data.image import Image
from enlcn.data.image_formats import rounding_note
from enlcn.data.image_io import ImageError, check_can_write, encode_image, has_transparency
from enlcn.errors import UserError
from enlcn.serve.catalogue import Model
from enlcn.serve.decoding import NAME, decode
from enlcn.serve.following import following
from enlcn.serve.jobs import Result, Watch
from enlcn.serve.metrics import Metrics
from enlcn.serve.problems import Problem, of_image
from enlcn.serve.storage import Blob, Storage, StorageFullError
from enlcn.serve.toolbox import Toolbox
from enlcn.upscaling.background import Colour, on_colour
from enlcn.upscaling.memory import is_out_of_memory
from enlcn.upscaling.picture import upscale_image
from enlcn.upscaling.planes import MemoryPlane
from enlcn.upscaling.resizing import resize_plane
from enlcn.upscaling.target import Target
from enlcn.zoo import PHOTO_FAMILY, photo_family_helps

MEDIA_TYPES = {form: f"image/{form}" for form in ("png", "jpeg", "webp", "avif", "tiff")}
_SHOWN_BY_BROWSERS = ("png", "jpeg", "webp", "avif")
_DECODED, _COMPUTED = 0.02, 0.92


@dataclass(frozen=True)
class UpscaleOptions:
    """What is asked of one picture.

    Attributes:
        model: whose weights.
        target: the size wanted.
        precision: "auto", "fp32", "bf16" or "fp16".
        self_ensemble: average over eight orientations.
        format: of the result.
        quality, lossless: how lossy formats are written.
        background: what a transparent picture is put on; None keeps its alpha.
        compare: also make what a before/after view shows.
    """

    model: Model
    target: Target
    precision: str
    self_ensemble: bool
    format: str
    quality: int | None
    lossless: bool
    background: Colour | None
    compare: bool


@dataclass
class UpscaleWork:
    """An upload and what is to be made of it; `offers_photo`: the server has a model for JPEG files, too."""

    upload: Blob
    options: UpscaleOptions
    max_pixels: int
    cost: float
    storage: Storage
    make_room: Callable[[int], None]
    metrics: Metrics
    offers_photo: bool = False

    def __call__(self, toolbox: Toolbox, watch: Watch) -> Result:
        """Decode, upscale, encode."""
        try:
            return self._run(toolbox, watch)
        except ImageError as error:
            raise of_image(error) from None
        except UserError as error:
            raise Problem("invalid-parameters", str(error)) from None
        except StorageFullError:
            raise Problem("storage-full", "the result does not fit in what the server may keep") from None
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            raise Problem("out-of-memory", "the picture and its result do not fit in the server's memory") from None

    def _run(self, toolbox: Toolbox, watch: Watch) -> Result:
        options = self.options
        watch.report(0.0, "decoding")
        image = decode(self.upload.read(), self.max_pixels)
        size = options.target.size(image.height, image.width)
        transparent = options.background is None and has_transparency(image)
        how = {"quality": options.quality, "lossless": options.lossless, "name": NAME}
        try:
            check_can_write(options.format, size[1], size[0], transparent=transparent, **how)  # type: ignore[arg-type]
        except ImageError as error:
            told = str(error).replace("--background white", "background=white")
            raise Problem("unsuitable-format", told) from None
        watch.report(_DECODED, "loading the model")
        checkpoint = options.model.checkpoint(options.target.factor(image.height, image.width))
        engine = toolbox.engine(checkpoint, options.precision, options.self_ensemble)

        def share(fraction: float) -> float:
            return _DECODED + (_COMPUTED - _DECODED) * fraction

        with following(engine, image.height, image.width, watch, share) as progress:
            result, report = upscale_image(engine, image, options.target, progress, options.background)
        self.metrics.count("enlcn_pixels_total", size[0] * size[1])
        watch.report(_COMPUTED, "encoding")
        files = {"result": encode_image(result, options.format, **how)}  # type: ignore[arg-type]
        media = {"result": MEDIA_TYPES[options.format]}
        rounding = rounding_note(options.format, result.bits)
        if options.compare:
            watch.report(0.96, "bicubic, to compare with")
            if options.format not in _SHOWN_BY_BROWSERS:
                files["preview"] = encode_image(result, "png", name=NAME)
            del result
            image = image if options.background is None else on_colour(image, options.background)
            files["before"] = encode_image(bicubic(image, size), "png", name=NAME)
        facts = {key: value for key, value in asdict(report).items() if key in ("mode", "precision", "tile")}
        notes = [*image.notes, *report.notes, *([rounding] if rounding else [])]
        if self.offers_photo and photo_family_helps(image.jpeg_quality, checkpoint):
            told = f"a JPEG of quality about {image.jpeg_quality}"
            notes.append(f"{told}; the model {PHOTO_FAMILY} removes the artefacts that this one sharpens")
        return self._kept(files, media, facts | {"notes": notes, "checkpoint": checkpoint.rpartition("/")[2]})

    def _kept(self, files: dict[str, bytes], media: dict[str, str], facts: dict[str, object]) -> Result:
        result = Result(facts=facts)
        self.make_room(sum(map(len, files.values())))
        try:
            for name, data in files.items():
                result.files[name] = (self.storage.blob(data), media.get(name, MEDIA_TYPES["png"]))
        except BaseException:
            result.discard()
            raise
        return result

    def discard(self) -> None:
        """The upload is needed no more."""
        self.upload.close()


def bicubic(image: Image, size: tuple[int, int]) -> Image:
    """The picture enlarged to (height, width) by bicubic interpolation, 8 bits: what "before" shows."""
    height, width = size
    top = np.iinfo(image.pixels.dtype).max

    def enlarged(planes: np.ndarray, dtype: type) -> np.ndarray:
        target = MemoryPlane(np.empty((height, width, planes.shape[2]), dtype))
        resize_plane(MemoryPlane(planes), target, np.dtype(dtype))
        return target.array

    if image.alpha is None or not has_transparency(image):
        return replace(image, pixels=enlarged(image.pixels, np.uint8), alpha=None)
    # Colours weighted by alpha: what hides under transparent pixels must not show.
    weighted = (image.pixels.astype(np.float32) * image.alpha[..., None] / top * (65535 / top) + 0.5).astype(np.uint16)
    alpha = enlarged(image.alpha[..., None], np.uint16)
    colours = enlarged(weighted, np.uint16).astype(np.float32) / np.maximum(alpha, 1)
    pixels = np.clip(colours * 255 + 0.5, 0, 255).astype(np.uint8)
    return replace(image, pixels=pixels, alpha=(alpha[..., 0] // 257).astype(np.uint8))
