"""`enlcn serve`: the studio, a web page and an API over the upscaler."""

import ipaddress
import os
import socket
from typing import Annotated, Any

import typer

from enlcn.cli import console
from enlcn.errors import MissingExtraError, UserError

PREFERRED_PORT = 8190
_ENV = "ENLCN_SERVE_"


def _option(text: str, *names: str, env: str) -> Any:
    return typer.Option(*names, help=text, envvar=_ENV + env)


def serve(
    host: Annotated[str, _option("Address to listen on; 0.0.0.0 for all.", env="HOST")] = "127.0.0.1",
    port: Annotated[
        int | None,
        _option(f"Port; 0 takes a free one. Default: {PREFERRED_PORT}, or a free one if it is taken.", env="PORT"),
    ] = None,
    model: Annotated[
        list[str] | None,
        _option(
            "A model to offer: a name, a checkpoint, a training run; repeatable. Default: all bundled ones.",
            "--model",
            "-m",
            env="MODELS",
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        _option("auto, cpu, cuda:1 …; repeatable, one picture at a time on each. Default: auto.", env="DEVICES"),
    ] = None,
    precision: Annotated[
        str, _option("Of requests that name none: auto, fp32, bf16 or fp16.", env="PRECISION")
    ] = "auto",
    token: Annotated[str | None, _option("Bearer token that clients must send.", env="TOKEN")] = None,
    allowed_host: Annotated[
        list[str] | None,
        _option("A further name by which the server may be called; * for any; repeatable.", env="ALLOWED_HOSTS"),
    ] = None,
    client_header: Annotated[
        str | None,
        _option("A header of a trusted proxy that names the client, for fair sharing.", env="CLIENT_HEADER"),
    ] = None,
    max_upload: Annotated[str, _option("Bytes of one upload.", env="MAX_UPLOAD")] = "64M",
    max_pixels: Annotated[int, _option("Pixels of one picture, by its header.", env="MAX_PIXELS")] = 2**24,
    direct_pixels: Annotated[
        int, _option("Results up to so many pixels are answered at once, larger ones as a job.", env="DIRECT_PIXELS")
    ] = 2**24,
    attention_pixels: Annotated[
        int, _option("The attention explorer shrinks larger pictures to this.", env="ATTENTION_PIXELS")
    ] = 100_000,
    queue_length: Annotated[int, _option("Requests that may wait.", env="QUEUE_LENGTH")] = 64,
    queue_per_client: Annotated[int, _option("Of one client.", env="QUEUE_PER_CLIENT")] = 16,
    stored: Annotated[str, _option("Bytes of all uploads and results kept.", env="STORED")] = "4G",
    head_seconds: Annotated[
        float, _option("To receive the head of a request; other connections are closed.", env="HEAD_SECONDS")
    ] = 15.0,
    upload_seconds: Annotated[float, _option("To receive one upload.", env="UPLOAD_SECONDS")] = 60.0,
    job_seconds: Annotated[float, _option("To compute one result.", env="JOB_SECONDS")] = 600.0,
    result_seconds: Annotated[float, _option("For which a result is kept.", env="RESULT_SECONDS")] = 600.0,
    abandon_seconds: Annotated[
        float, _option("After which a job that nobody asks about is cancelled.", env="ABANDON_SECONDS")
    ] = 60.0,
    shutdown_seconds: Annotated[
        float, _option("That running jobs get to finish when the server stops.", env="SHUTDOWN_SECONDS")
    ] = 30.0,
    memory_limit: Annotated[
        str | None, _option("Memory of one inference, such as 2G; at least 512M.", env="MEMORY_LIMIT")
    ] = None,
    log: Annotated[bool, _option("Tell of every request and job on standard error.", "--log", env="LOG")] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Start the studio: drop pictures on a page, or send them to its API. Ctrl-C stops it."""
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise MissingExtraError("enlcn serve", "serve") from None
    if token is None and os.environ.get(_ENV + "TOKEN") is not None:  # the option takes an empty variable for none
        raise UserError(f"{_ENV}TOKEN is empty; give it a token, or unset it to let everyone in")
    listener = _listen(host, port)  # before torch is imported: what is wrong here is told at once
    from enlcn.serve.config import ServeConfig
    from enlcn.upscaling.engine_options import parse_bytes

    config = ServeConfig(
        host=host,
        port=port or 0,
        models=tuple(model or ()),
        devices=tuple(device or ("auto",)),
        precision=precision,
        token=token,
        allowed_hosts=tuple(allowed_host or ()),
        client_header=client_header,
        max_upload_bytes=parse_bytes(max_upload),
        max_pixels=max_pixels,
        direct_pixels=direct_pixels,
        attention_pixels=attention_pixels,
        queue_length=queue_length,
        queue_per_client=queue_per_client,
        stored_bytes=parse_bytes(stored),
        head_seconds=head_seconds,
        upload_seconds=upload_seconds,
        job_seconds=job_seconds,
        result_seconds=result_seconds,
        abandon_seconds=abandon_seconds,
        shutdown_seconds=shutdown_seconds,
        memory_limit=memory_limit,
    )
    from enlcn.serve.run import run
    from enlcn.upscaling.devices import resolve_device
    from enlcn.upscaling.engine_options import EngineOptions

    for name in config.devices:  # a server that can do no job is no use to anybody
        resolve_device(name)
    _ = EngineOptions(memory_limit=memory_limit).limit
    bound, port = listener.getsockname()[:2]
    is_reachable = not ipaddress.ip_address(bound).is_loopback or config.host_names is None
    address = _address(host, port)
    elsewhere = [_address(name, port) for name in _names_elsewhere(host, config.allowed_hosts)]

    def ready() -> None:
        console.say(f"studio: {' and '.join((address, *elsewhere))}  (Ctrl-C stops it)", to=console.err)
        if config.token is None and is_reachable:
            console.say("note: anyone who reaches this address can use it; --token asks for a password", to=console.err)
        if open_browser:
            import webbrowser

            webbrowser.open(address)

    def tell(text: str) -> None:
        console.say(text, to=console.err)

    run(config, listener, ready, tell, tell if log else None)
    console.say("stopped", to=console.err)


def _listen(host: str, port: int | None) -> socket.socket:
    """A bound socket; where no port was named and the preferred one is taken, on a free one."""
    for candidate in (PREFERRED_PORT, 0) if port is None else (port,):
        listener = None
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            # The protocol by name: only then does asyncio switch off Nagle's delay of 40 ms.
            listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host, candidate))
            return listener
        except (OSError, OverflowError) as error:
            if listener is not None:
                listener.close()
            reason = getattr(error, "strerror", None) or str(error)
            no_such_host = isinstance(error, socket.gaierror)
    where = host if port is None or no_such_host else f"{host} port {port}"
    advice = "--host" if no_such_host else "--port or --host"
    raise UserError(f"cannot listen on {where} ({reason}); choose another {advice}")


def _names_elsewhere(host: str, allowed: tuple[str, ...]) -> list[str]:
    """By which names other computers may call a server that listens on all addresses."""
    if host not in ("0.0.0.0", "::"):
        return []
    named = [name for name in allowed if name != "*"]
    return named if named and "*" not in allowed else [*named, socket.gethostname()]


def _address(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}/"
