"""Pictures over HTTP: upscale one, or ask where a network looks in it."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from enlcn.data.image_io import check_can_write
from enlcn.errors import UserError
from enlcn.serve.attention_work import WEIGHINGS, AttentionOptions, AttentionWork
from enlcn.serve.catalogue import Catalogue
from enlcn.serve.clients import client_of
from enlcn.serve.job_routes import studio_of, view
from enlcn.serve.jobs import Job, Result
from enlcn.serve.problems import Problem, retry_later
from enlcn.serve.schemas import (
    IMAGES,
    PICTURE_BODY,
    AttentionParameters,
    AttentionView,
    JobView,
    UpscaleParameters,
    UpscaleQuery,
    problem_responses,
)
from enlcn.serve.sending import KeptFile
from enlcn.serve.storage import BlobGoneError
from enlcn.serve.studio import Studio
from enlcn.serve.uploads import Header, check_length, probe, receive
from enlcn.serve.upscale_work import UpscaleOptions, UpscaleWork
from enlcn.upscaling.background import parse_colour
from enlcn.upscaling.target import Target
from enlcn.zoo import PHOTO_FAMILY

router = APIRouter(prefix="/v1")
_PROBLEMS = problem_responses(
    "bad-request",
    "upload-too-slow",
    "job-cancelled",
    "upload-too-large",
    "too-many-pixels",
    "not-an-image",
    "damaged-image",
    "unsupported-image",
    "unsuitable-format",
    "invalid-parameters",
    "queue-full",
    "client-queue-full",
    "shutting-down",
    "storage-full",
    "too-slow",
)


@router.post(
    "/upscale",
    response_class=Response,
    responses={
        200: {
            "description": "The picture itself: small results, or respond=image.",
            "content": IMAGES,
        },
        202: {
            "description": "A job: large results, or respond=job.",
            "model": JobView,
            "headers": {"Location": {"schema": {"type": "string"}, "description": "Where the job is."}},
            "links": {
                name: {"operationId": name, "parameters": {"job_id": "$response.body#/id"}}
                for name in ("get_job", "get_events", "get_result", "get_before", "get_preview", "delete_job")
            },
        },
        **_PROBLEMS,
    },
    openapi_extra=PICTURE_BODY,
    tags=["pictures"],
    summary="Upscale a picture",
)
async def post_upscale(request: Request, asked: UpscaleParameters) -> Response:
    """Send a picture as a form's part named `file` or as the raw body. A client that goes away frees its place."""
    studio = studio_of(request)
    catalogue: Catalogue = request.app.state.catalogue
    model = catalogue.find(asked.model)
    try:
        given = (asked.scale, asked.width, asked.height)
        target = Target(*given) if any(given) else Target(scale=float(model.largest_scale))
    except UserError as error:
        raise Problem("invalid-parameters", str(error)) from None
    check_length(request, studio.config)
    with studio.reserve(client_of(request, studio.config.client_header)) as place:
        upload = await receive(request, studio)
        try:
            header = await probe(upload, studio)
            height, width = target.size(header.height, header.width)
            options = UpscaleOptions(
                model,
                target,
                asked.precision or studio.config.precision,
                asked.self_ensemble,
                _format(asked, header),
                asked.quality,
                asked.lossless,
                None if asked.background is None else parse_colour(asked.background),
                asked.compare,
            )
            _check(options, header, (height, width))
            facts = {
                "kind": "upscale",
                "input": {"width": header.width, "height": header.height},
                "output": {"width": width, "height": height},
                "format": options.format,
                "model": model.name,
            }
            cost = header.width * header.height * (8 if asked.self_ensemble else 1)
            work = UpscaleWork(
                upload,
                options,
                studio.config.max_pixels,
                cost,
                studio.storage,
                studio.make_room,
                studio.metrics,
                offers_photo=PHOTO_FAMILY in catalogue.models,
            )
            job = place.submit(work, facts)
        except BaseException:
            upload.close()
            raise
    as_image = asked.respond == "image" or (asked.respond == "auto" and width * height <= studio.config.direct_pixels)
    if not as_image:
        return JSONResponse(view(studio, job), 202, headers={"Location": f"/v1/jobs/{job.id}"})
    result = await finished(request, studio, job)
    try:
        return KeptFile(*result.files["result"])
    except BlobGoneError:
        raise _not_kept(studio) from None
    finally:
        studio.forget(job)  # the answer holds what it sends; nobody else knows of the job


@router.post(
    "/attention",
    response_model=AttentionView,
    responses=_PROBLEMS,
    openapi_extra=PICTURE_BODY,
    tags=["pictures"],
    summary="Where a network looks",
)
async def post_attention(request: Request, asked: AttentionParameters) -> Response:
    """Send a picture as a form's part named `file` or as the raw body; large ones are shrunk before."""
    studio = studio_of(request)
    catalogue: Catalogue = request.app.state.catalogue
    model = catalogue.find(asked.model)
    check_length(request, studio.config)
    with studio.reserve(client_of(request, studio.config.client_header)) as place:
        upload = await receive(request, studio)
        try:
            header = await probe(upload, studio)
            if asked.x >= header.width or asked.y >= header.height:
                detail = f"point {asked.x},{asked.y} lies outside the picture of {header.width}x{header.height} pixels"
                raise Problem("invalid-parameters", detail)
            options = AttentionOptions(
                model,
                (asked.x, asked.y),
                tuple(asked.modules) or None,
                tuple(asked.weighings) or WEIGHINGS,
                asked.k,
                asked.m,
                asked.seed,
            )
            config = studio.config
            cost = min(header.width * header.height, config.attention_pixels)
            work = AttentionWork(upload, options, config.max_pixels, config.attention_pixels, cost)
            size = {"width": header.width, "height": header.height}
            job = place.submit(work, {"kind": "attention", "input": size, "model": model.name})
        except BaseException:
            upload.close()
            raise
    try:
        result = await finished(request, studio, job)
        return JSONResponse(result.facts)
    finally:
        studio.forget(job)


async def finished(request: Request, studio: Studio, job: Job) -> Result:
    """Wait for a job's result; where the client goes away meanwhile, the job goes too. A problem is raised."""
    job.is_received = True  # by this answer; nobody else asks for it
    ended = asyncio.ensure_future(job.until_final())
    left = asyncio.ensure_future(_client_left(request))
    try:
        await asyncio.wait({ended, left}, return_when=asyncio.FIRST_COMPLETED)
        if not job.is_final:
            raise Problem("job-cancelled", "the client went away")
        if job.problem is not None:
            raise job.problem.fresh()
        result = job.result
        if result is None:
            raise _not_kept(studio)
        return result
    except BaseException:
        studio.forget(job)
        raise
    finally:
        ended.cancel()
        left.cancel()


def _not_kept(studio: Studio) -> Problem:
    """A result was forgotten to make room for others."""
    return retry_later("storage-full", "the result could not be kept until it was sent", studio.retry_after())


async def _client_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _format(asked: UpscaleQuery, header: Header) -> str:
    if asked.format != "auto":
        return asked.format
    return "tiff" if header.format == "tiff" else "png"


def _check(options: UpscaleOptions, header: Header, size: tuple[int, int]) -> None:
    """All that can be told from the header alone is told before the work."""
    how: dict[str, Any] = {"quality": options.quality, "lossless": options.lossless, "name": "result"}
    try:
        factor = options.target.factor(header.height, header.width)
        if factor > options.model.largest_scale:
            raise UserError(f"x{factor:.4g} is beyond x{options.model.largest_scale}, this model's largest scale")
        check_can_write(options.format, size[1], size[0], transparent=False, **how)
    except UserError as error:
        raise Problem("invalid-parameters", str(error)) from None
