"""What a server says about itself: models, limits, health, metrics; and the page."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from enlcn.serve.job_routes import studio_of
from enlcn.serve.metrics import CONTENT_TYPE, resident_bytes
from enlcn.serve.problems import KINDS, Problem, retry_later
from enlcn.serve.schemas import HealthView, KindView, LimitsView, ModelsView, problem_responses
from enlcn.upscaling.engine_options import PRECISIONS
from enlcn.version import __version__

PAGE = Path(__file__).parent / "page"
SAMPLE = Path(__file__).parents[1] / "assets" / "palace.png"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_GET_AND_HEAD = ["GET", "HEAD"]  # monitors ask for heads alone; the server leaves the body out
router = APIRouter()


def page_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page by name, read once: no request ever becomes a path."""
    files = {
        path.name: (path.read_bytes(), f"{_TYPES[path.suffix]}; charset=utf-8")
        for path in sorted(PAGE.iterdir())
        if path.suffix in _TYPES
    }
    return files | {"sample.png": (SAMPLE.read_bytes(), "image/png")}


@router.api_route("/", methods=_GET_AND_HEAD, response_class=Response, include_in_schema=False)
async def get_page(request: Request) -> Response:
    """The studio's page."""
    return _page_file(request, "index.html")


@router.api_route("/page/{name}", methods=_GET_AND_HEAD, response_class=Response, include_in_schema=False)
async def get_page_file(request: Request, name: str) -> Response:
    """A file of the page."""
    return _page_file(request, name)


def _page_file(request: Request, name: str) -> Response:
    files: dict[str, tuple[bytes, str]] = request.app.state.page_files
    if name not in files:
        raise Problem("not-found", "the page has no such file")
    data, media_type = files[name]
    return Response(data, media_type=media_type, headers={"Cache-Control": "no-cache"})


@router.get("/v1/models", response_model=ModelsView, responses=problem_responses(), tags=["server"])
def get_models(request: Request) -> dict[str, Any]:
    """The models that can be chosen, with the paper's k and m and whether the contrastive loss trained them."""
    return {
        "models": request.app.state.catalogue.description,
        "precisions": list(PRECISIONS),
        "formats": ["png", "jpeg", "webp", "avif", "tiff"],
    }


@router.get("/v1/limits", response_model=LimitsView, responses=problem_responses(), tags=["server"])
async def get_limits(request: Request) -> dict[str, Any]:
    """What this server allows."""
    told = asdict(studio_of(request).config)
    return {name: told[name] for name in LimitsView.model_fields if name in told} | {"version": __version__}


@router.get("/v1/problems", response_model=dict[str, KindView], responses=problem_responses(), tags=["server"])
async def get_problems() -> dict[str, Any]:
    """Every kind of problem: a problem's `type` ends in one of these names."""
    return {name: asdict(kind) for name, kind in KINDS.items()}


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=HealthView, responses=problem_responses(), tags=["server"])
async def get_health() -> dict[str, str]:
    """Whether the server lives."""
    return {"status": "ok"}


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz", response_model=HealthView, responses=problem_responses("shutting-down", "not-ready"), tags=["server"]
)
async def get_ready(request: Request) -> dict[str, str]:
    """Whether the server takes work: its default model is loaded, and it is not stopping."""
    if studio_of(request).is_draining:
        raise retry_later("shutting-down", "the server is stopping", 10)
    for worker in request.app.state.workers:
        if not worker.is_ready.is_set():
            raise retry_later("not-ready", worker.failure or "the default model is being loaded", 2)
    return {"status": "ready"}


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problem_responses()},
    tags=["server"],
)
async def get_metrics(request: Request) -> Response:
    """Counters, histograms and gauges for Prometheus."""
    studio = studio_of(request)
    gauges = studio.gauges() | {"process_resident_memory_bytes": resident_bytes()}
    return Response(studio.metrics.render(gauges), media_type=CONTENT_TYPE)
