"""Jobs over HTTP: their state, their events, their result, their end."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from enlcn.serve.jobs import Job, State
from enlcn.serve.problems import Problem
from enlcn.serve.schemas import BYTES, IMAGES, JobView, problem_responses
from enlcn.serve.sending import KeptFile
from enlcn.serve.storage import BlobGoneError
from enlcn.serve.studio import Studio, no_such_job

HEARTBEAT = 10.0
router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
_FILE_PROBLEMS = problem_responses(
    "no-such-job",
    "not-finished",
    "job-cancelled",
    "damaged-image",
    "unsupported-image",
    "unsuitable-format",
    "job-failed",
    "too-slow",
    "shutting-down",
)
_EVENT = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "id": {"type": "string"},
        "event": {"type": "string", "description": "The job's state."},
        "data": {"type": "string", "description": "The job as JSON."},
    },
}


def studio_of(request: Request) -> Studio:
    """The studio that an application belongs to."""
    studio: Studio = request.app.state.studio
    return studio


def view(studio: Studio, job: Job) -> dict[str, Any]:
    """A job as clients see it."""
    ended = job.finished
    seconds = None if job.started is None else (ended or time.time()) - job.started
    files = {} if job.result is None else {name: f"/v1/jobs/{job.id}/{name}" for name in job.result.files}
    return {
        "id": job.id,
        "state": job.state.value,
        "position": studio.position(job),
        "progress": {"fraction": round(job.fraction, 4), "step": job.step},
        **{key: job.facts[key] for key in ("input", "output", "format", "model")},
        "created": job.created,
        "seconds": None if seconds is None else round(seconds, 3),
        "expires": None if ended is None else ended + studio.config.result_seconds,
        "files": files,
        "facts": {} if job.result is None else job.result.facts,
        "problem": None if job.problem is None else job.problem.body(),
    }


@router.get("/{job_id}", response_model=JobView, responses=problem_responses("no-such-job"), summary="How far a job is")
async def get_job(request: Request, job_id: str) -> dict[str, Any]:
    """The state of a job. Asking keeps it alive: one that nobody asks about is cancelled after a while."""
    studio = studio_of(request)
    return _told(studio, studio.find(job_id))


@router.get(
    "/{job_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": _EVENT}}},
        **problem_responses("no-such-job"),
    },
    summary="Follow a job",
)
async def get_events(request: Request, job_id: str) -> StreamingResponse:
    """Server-sent events named after the job's state, each with the job as data; the stream ends with the job."""
    studio = studio_of(request)
    job = studio.find(job_id)

    async def events() -> AsyncIterator[str]:
        number = 0
        async for news in job.changes(HEARTBEAT):
            if not news:
                yield ": still here\n\n"
                continue
            number += 1
            yield f"id: {number}\nevent: {job.state.value}\ndata: {json.dumps(_told(studio, job))}\n\n"

    headers = {"X-Accel-Buffering": "no"}  # proxies are not to collect events
    return StreamingResponse(events(), media_type="text/event-stream", headers=headers)


@router.get(
    "/{job_id}/result",
    response_class=Response,
    responses={200: {"description": "The picture.", "content": IMAGES}, **_FILE_PROBLEMS},
    summary="The result",
)
async def get_result(request: Request, job_id: str) -> Response:
    """The picture that a job made."""
    job = studio_of(request).find(job_id)
    answer = _file(job, "result")
    job.is_received = True
    return answer


@router.get(
    "/{job_id}/before",
    response_class=Response,
    responses={
        200: {"description": "Bicubic, at the result's size.", "content": {"image/png": BYTES}},
        **_FILE_PROBLEMS,
    },
    summary="Bicubic, to compare with",
)
async def get_before(request: Request, job_id: str) -> Response:
    """The input enlarged by bicubic interpolation, where the job was asked to compare."""
    return _file(studio_of(request).find(job_id), "before")


@router.get(
    "/{job_id}/preview",
    response_class=Response,
    responses={200: {"description": "A picture that browsers show.", "content": IMAGES}, **_FILE_PROBLEMS},
    summary="The result as browsers show it",
)
async def get_preview(request: Request, job_id: str) -> Response:
    """The result itself, or a PNG of it where browsers do not show its format and the job was asked to compare."""
    job = studio_of(request).find(job_id)
    has_preview = job.result is not None and "preview" in job.result.files
    return _file(job, "preview" if has_preview else "result")


@router.delete(
    "/{job_id}",
    status_code=204,
    response_class=Response,
    responses=problem_responses("no-such-job"),
    summary="Cancel or delete",
)
async def delete_job(request: Request, job_id: str) -> Response:
    """Stop a job that waits or runs; delete the result of one that is done."""
    studio = studio_of(request)
    studio.forget(studio.find(job_id))
    return Response(status_code=204)


def _told(studio: Studio, job: Job) -> dict[str, Any]:
    """A job as its client is told of it; where nothing was made, that is all there is to get."""
    told = view(studio, job)
    job.is_received |= told["state"] in (State.failed, State.cancelled)
    return told


def _file(job: Job, name: str) -> Response:
    # Read once, the state first: it changes last when a job ends, and the result may be forgotten at any moment.
    state, result = job.state, job.result
    if job.problem is not None:
        raise job.problem.fresh()
    if state != State.done:
        raise Problem("not-finished", f"the job is {state.value}, {job.fraction:.0%} done")
    if result is None:
        raise no_such_job()
    if name not in result.files:
        raise Problem("no-such-job", f"the job made no '{name}'; ask for it with compare=true")
    try:
        return KeptFile(*result.files[name])
    except BlobGoneError:
        raise no_such_job() from None
