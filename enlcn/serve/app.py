"""The application: routes, the guard around them, workers beneath them, and their common end."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Route

from enlcn.serve import info_routes, job_routes, picture_routes
from enlcn.serve.catalogue import Catalogue
from enlcn.serve.config import ServeConfig
from enlcn.serve.guard import SECURITY_HEADERS, Guard
from enlcn.serve.journal import Journal
from enlcn.serve.problems import PROBLEM_TYPE, Problem, from_status
from enlcn.serve.schemas import ProblemView
from enlcn.serve.studio import Studio
from enlcn.serve.worker import Worker
from enlcn.version import __version__

log = logging.getLogger(__name__)
_ROUTERS = (info_routes.router, picture_routes.router, job_routes.router)
_SWEEP_SECONDS = 1.0
_LAST_SECONDS = 5.0  # for a job to notice that it must stop


def create_app(config: ServeConfig, journal: Journal | None = None) -> FastAPI:
    """The ASGI application of a server; its workers run from startup to shutdown."""
    studio, catalogue = Studio(config, journal), Catalogue(config.models)
    workers = [Worker(studio, catalogue, device) for device in config.devices]

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for worker in workers:
            worker.start()
        sweeper = asyncio.create_task(_sweep(studio))
        try:
            yield
        finally:
            sweeper.cancel()
            await shut_down(studio, workers)

    app = FastAPI(
        title="enlcn studio",
        version=__version__,
        description="Image super-resolution with global attention at linear cost.",
        lifespan=lifespan,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,  # its page would load scripts from another host
        redoc_url=None,
    )
    app.state.studio, app.state.catalogue, app.state.workers = studio, catalogue, workers
    app.state.page_files = info_routes.page_files()
    for router in _ROUTERS:
        app.include_router(router)
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_failure)
    app.add_middleware(Guard, config=config, metrics=studio.metrics, journal=studio.journal)
    _complete_openapi(app, list(catalogue.models), secured=config.token is not None)
    return app


async def shut_down(studio: Studio, workers: list[Worker]) -> None:
    """Hand back what waits, let what runs finish within its time, then stop it."""
    studio.drain()
    for seconds in (studio.seconds_to_finish, _LAST_SECONDS):
        ended = await asyncio.gather(*(asyncio.to_thread(w.join, seconds) for w in workers))
        if all(ended):
            return
        studio.stop_running()
    log.warning("a job did not stop in time and is abandoned")


async def _sweep(studio: Studio) -> None:
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        studio.sweep()


def _response(problem: Problem) -> JSONResponse:
    return JSONResponse(problem.body(), problem.status, headers=problem.headers, media_type=PROBLEM_TYPE)


async def _on_problem(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return _response(error)


async def _on_invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    errors = [{"parameter": ".".join(map(str, e["loc"][1:])), "detail": e["msg"]} for e in error.errors()]
    told = "; ".join(f"{e['parameter']}: {e['detail']}" for e in errors)
    return _response(Problem("invalid-parameters", told, extra={"errors": errors}))


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    problem = from_status(error.status_code, str(error.detail), error.headers)
    if error.status_code == 405:
        problem.headers["Allow"] = ", ".join(sorted(_methods(request)))
    return _response(problem)


def _methods(request: Request) -> set[str]:
    """Every method that the path knows; the framework names only those of its first route."""
    allowed: set[str] = set()
    for router in _ROUTERS:
        for route in router.routes:
            if isinstance(route, Route) and route.path_regex.match(request.url.path):
                allowed |= route.methods or set()
    return allowed


async def _on_failure(request: Request, error: Exception) -> JSONResponse:
    response = _response(Problem("internal-error", "an error that the server did not expect; it has been logged"))
    response.headers.update({**SECURITY_HEADERS, "Cache-Control": "no-store"})  # sent outside the guard
    return response


def _complete_openapi(app: FastAPI, models: list[str], *, secured: bool) -> None:
    """OpenAPI with models, problems and the token described; FastAPI's own 422 form is not what is sent."""
    original = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = original()
            components = schema.setdefault("components", {})
            schemas = components.setdefault("schemas", {})
            schemas["ProblemView"] = ProblemView.model_json_schema()
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            for path in schema["paths"].values():
                for operation in path.values():
                    _describe_problems(operation)
                    for parameter in operation.get("parameters", ()):
                        if parameter["name"] == "model":
                            parameter["schema"] = {"type": "string", "enum": models}
            if secured:
                components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
                schema["security"] = [{"token": []}]
                for open_path in ("/healthz", "/readyz"):
                    schema["paths"][open_path]["get"]["security"] = []
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe_problems(operation: dict[str, Any]) -> None:
    problem = {"schema": {"$ref": "#/components/schemas/ProblemView"}}
    for status, response in operation["responses"].items():
        if int(status) >= 400:
            response["content"] = {PROBLEM_TYPE: problem}
