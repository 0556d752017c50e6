"""Ray, and the connection to a cluster: to one by its address, or to one that starts and ends with a run."""

import gc
import os
import signal
import socket
import threading
from typing import Any

from enlcn.cluster.options import ClusterOptions
from enlcn.errors import MissingExtraError, UserError

CLIENT = "ray://"
_REACH_SECONDS = 10
_EXECUTOR = "StreamingExecutor"  # how Ray Data calls the threads that drive its data sets


def ray_module() -> Any:
    """The module `ray` with Ray Data, quiet, or an error that names the extra which brings it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
    os.environ.setdefault("RAY_DATA_LOG_LEVEL", "ERROR")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what Ray will do from now on; it warns without
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtraError("cluster work", "cluster") from None
    return ray


class Connection:
    """A scope in which Ray can be used."""

    def __init__(self, options: ClusterOptions):
        self.options = options
        self.address = options.address or os.environ.get("RAY_ADDRESS") or None
        self._ours = False

    @property
    def is_client(self) -> bool:
        """Whether Ray is spoken to through its client, through which Ray Data cannot be driven."""
        return self.address is not None and self.address.startswith(CLIENT)

    def __enter__(self) -> "Connection":
        ray = ray_module()
        if ray.is_initialized():
            return self
        options = self.options
        how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if options.runtime_env:
            how["runtime_env"] = options.runtime_env
        signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            if self.address is not None:
                _require_reachable(self.address)
                ray.init(address=self.address, **how)
            else:
                # Ray's own count is of cores; workers asked for in so many words may share them.
                wanted = 0 if options.workers is None else round(options.workers * options.cpus_per_worker)
                cores = max(wanted, os.cpu_count() or 1)
                ray.init(num_cpus=cores, include_dashboard=False, object_store_memory=options.object_store, **how)
        except UserError:
            raise
        except Exception as error:  # of Ray, or of what a runtime environment must not be
            where = self.address or "this machine"
            raise UserError(f"Ray at {where} cannot be used ({(str(error).splitlines() or [''])[0]})") from None
        finally:
            _put_back(signals)
        self._ours = True
        return self

    def __exit__(self, *error: object) -> None:
        if self._ours:
            _let_go_of_ray()
            ray_module().shutdown()


def _let_go_of_ray() -> None:
    """Whatever still uses Ray after it was shut down, be it to say that it needs it no more, ends the whole process."""
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith(_EXECUTOR) and thread is not threading.current_thread():
            thread.join(_REACH_SECONDS)


def _put_back(signals: dict[signal.Signals, Any]) -> None:
    """Ray takes SIGTERM for itself, prints its stack and ends the process: whoever handled it is to do so again."""
    if threading.current_thread() is threading.main_thread():
        for number, handler in signals.items():
            if handler is not None:  # one that was not set from Python
                signal.signal(number, handler)


def _require_reachable(address: str) -> None:
    """Ray would go on trying for minutes."""
    host, _, port = address.removeprefix(CLIENT).partition("?")[0].rpartition(":")
    if not host or not port.isdecimal():
        return  # auto and the like: Ray knows
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS).close()
    except OSError as error:
        raise UserError(f"Ray at {address} cannot be reached ({error.strerror or error})") from None
