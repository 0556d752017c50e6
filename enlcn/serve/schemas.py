"""What goes over the wire, as types: the JSON of answers, and the parameters of requests."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from enlcn.serve.problems import KINDS, PROBLEM_TYPE

FormatName = Literal["auto", "png", "jpeg", "webp", "avif", "tiff"]
PrecisionName = Literal["auto", "fp32", "bf16", "fp16"]
WeighingName = Literal["features", "exact", "hashed", "criss-cross"]
LARGEST_SIDE = 2**20


class ProblemView(BaseModel):
    """A problem, as RFC 9457 has it."""

    model_config = ConfigDict(extra="allow")
    type: str = Field(description="Which kind of problem; its fragment is a key of /v1/problems.")
    title: str = Field(description="The kind in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What happened this time.")


class Size(BaseModel):
    """A size in pixels."""

    width: int
    height: int


class Progress(BaseModel):
    """How far a job is."""

    fraction: float = Field(description="0 to 1.", ge=0, le=1)
    step: str = Field(description="What is being done, in words.")


class JobView(BaseModel):
    """A job."""

    id: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    position: int | None = Field(description="How many jobs are before it; null unless it waits.")
    progress: Progress
    input: Size
    output: Size
    format: str
    model: str
    created: float = Field(description="Seconds since 1970.")
    seconds: float | None = Field(description="How long it ran, or has been running.")
    expires: float | None = Field(description="When the result will be gone, in seconds since 1970.")
    files: dict[str, str] = Field(description="What can be fetched: 'result', and with compare 'before' and 'preview'.")
    facts: dict[str, Any] = Field(description="How it was done: mode, precision, checkpoint, notes.")
    problem: ProblemView | None


class AttentionSettings(BaseModel):
    """A network's attention."""

    kind: str = Field(description="enlca, nla, nlsa, cca or none.")
    modules: int
    k: float | None = Field(description="Amplification: the squared length of queries and keys.")
    m: int | None = Field(description="Random features.")
    contrast: bool | None = Field(description="Whether the contrastive loss trained it; null where nothing records it.")


class CheckpointView(BaseModel):
    """Weights of one scale."""

    name: str
    scale: int
    parameters: int
    trained: bool
    attention: AttentionSettings


class ModelView(BaseModel):
    """A model that can be chosen."""

    name: str
    default: bool
    scales: list[int] = Field(description="At which it is trained; any other number up to the largest works too.")
    checkpoints: list[CheckpointView]


class ModelsView(BaseModel):
    """What can be chosen."""

    models: list[ModelView]
    precisions: list[str]
    formats: list[str]


class LimitsView(BaseModel):
    """What this server allows."""

    max_upload_bytes: int
    max_pixels: int
    direct_pixels: int
    attention_pixels: int
    queue_length: int
    queue_per_client: int
    job_seconds: float
    result_seconds: float
    abandon_seconds: float
    version: str


class HealthView(BaseModel):
    """Whether the server lives, or is ready."""

    status: str


class KindView(BaseModel):
    """One kind of problem."""

    status: int
    title: str
    advice: str


class MapView(BaseModel):
    """One map: weights over all pixels, summing to 1."""

    weighing: WeighingName
    peak: float = Field(description="The largest weight.")
    focus: float = Field(description="The share of all weight that the heaviest 1 % of the pixels hold.")
    levels: str = Field(description="Base64 of one byte a pixel, row by row: 255 sqrt(weight / peak).")


class ModuleView(BaseModel):
    """The maps of one attention module."""

    module: int = Field(description="Which one, from 1.")
    kind: str
    maps: list[MapView]
    relative_error: float | None = Field(None, description="|features - exact| / |exact|, Euclidean, over all weights.")
    misplaced: float | None = Field(None, description="The share of all weight that the estimate puts elsewhere.")


class AttentionView(BaseModel):
    """Where a network looks from one pixel."""

    checkpoint: CheckpointView
    input: Size
    size: Size = Field(description="At which it was computed: large pictures are shrunk.")
    point: dict[str, int] = Field(description="x and y at that size.")
    k: float | None
    m: int
    modules: list[ModuleView]


class UpscaleQuery(BaseModel):
    """What is asked of a picture."""

    model_config = ConfigDict(extra="forbid")
    scale: float | None = Field(None, gt=0, le=4, allow_inf_nan=False, description="How much larger; default: largest.")
    width: int | None = Field(None, ge=1, le=LARGEST_SIDE, description="Output width instead of a scale.")
    height: int | None = Field(None, ge=1, le=LARGEST_SIDE, description="Output height instead of a scale.")
    model: str | None = Field(None, max_length=200, description="A name from /v1/models; default: the first.")
    precision: PrecisionName | None = Field(None, description="Default: the server's.")
    self_ensemble: bool = Field(False, description="Average over 8 orientations: a little better, 8 times slower.")
    format: FormatName = Field("auto", description="auto is TIFF for TIFF, else PNG.")
    quality: int | None = Field(None, ge=1, le=100, description="Of lossy formats.")
    lossless: bool = Field(False, description="Lossless WebP or AVIF.")
    background: str | None = Field(
        None,
        pattern=r"^(white|black|grey|gray|#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6}))$",
        description="A colour for transparent pictures, as JPEG needs it: a name or rrggbb.",
    )
    respond: Literal["auto", "image", "job"] = Field("auto", description="The image itself, or a job to follow.")
    compare: bool = Field(False, description="Jobs also make a bicubic 'before'.")


class AttentionQuery(BaseModel):
    """What is asked about a pixel."""

    model_config = ConfigDict(extra="forbid")
    x: int = Field(ge=0, le=LARGEST_SIDE, description="Column of the pixel to look from.")
    y: int = Field(ge=0, le=LARGEST_SIDE, description="Row of the pixel to look from.")
    model: str | None = Field(None, max_length=200, description="A name from /v1/models; default: the first.")
    modules: list[Annotated[int, Field(ge=1, le=64)]] = Field([], max_length=16, description="Which, from 1; all.")
    weighings: list[WeighingName] = Field([], max_length=8, description="Which maps; default: all four.")
    k: float | None = Field(None, gt=0, le=64, allow_inf_nan=False, description="Amplification instead of its own.")
    m: int | None = Field(None, ge=1, le=4096, description="Random features instead of its own; draws another F.")
    seed: int | None = Field(None, ge=0, le=2**31, description="Draws another F.")


UpscaleParameters = Annotated[UpscaleQuery, Query()]
AttentionParameters = Annotated[AttentionQuery, Query()]

BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
IMAGES = {f"image/{name}": BYTES for name in ("png", "jpeg", "webp", "avif", "tiff")}
PICTURE_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "A picture: PNG, JPEG, WebP, AVIF, TIFF or BMP.",
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": BYTES["schema"]},
                    "additionalProperties": False,
                }
            },
            "application/octet-stream": BYTES,
            "image/*": BYTES,
        },
    }
}


def problem_responses(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI's description of the problems a route may answer with."""
    always = ("unauthorised", "forbidden-origin", "internal-error")
    responses: dict[int | str, dict[str, Any]] = {}
    for kind in (*kinds, *always):
        known = KINDS[kind]
        entry = responses.setdefault(
            known.status,
            {"description": "", "content": {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemView"}}}},
        )
        entry["description"] = "; ".join(filter(None, (entry["description"], known.title)))
        if known.status in (429, 503):
            entry["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait."}}
        if known.status == 401:
            entry["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
    return responses
