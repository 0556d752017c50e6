"""Counters and histograms in Prometheus' text format."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
HELP = {
    "enlcn_requests_total": ("counter", "HTTP requests answered."),
    "enlcn_request_seconds": ("histogram", "From the request's first byte to the answer's last."),
    "enlcn_jobs_total": ("counter", "Jobs that ended, by kind and final state."),
    "enlcn_job_seconds": ("histogram", "Time that jobs ran, without waiting."),
    "enlcn_rejected_total": ("counter", "Requests refused because a queue was full."),
    "enlcn_pixels_total": ("counter", "Output pixels computed."),
    "enlcn_queue_length": ("gauge", "Requests that wait or are being uploaded."),
    "enlcn_jobs_running": ("gauge", "Jobs being computed."),
    "enlcn_jobs_kept": ("gauge", "Jobs known to the server, finished ones included."),
    "enlcn_stored_bytes": ("gauge", "Bytes of uploads and results kept."),
    "process_resident_memory_bytes": ("gauge", "Resident memory."),
}
Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What is counted; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, list[float]]] = {}  # counts per bucket, then sum, then count

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            series = self._counters.setdefault(name, {})
            series[key] = series.get(key, 0.0) + amount

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Put a duration into a histogram."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            row = self._histograms.setdefault(name, {}).setdefault(key, [0.0] * (len(BUCKETS) + 2))
            for place, bound in enumerate(BUCKETS):
                row[place] += seconds <= bound
            row[-2] += seconds
            row[-1] += 1

    def render(self, gauges: Mapping[str, float]) -> str:
        """The text that Prometheus reads."""
        lines: list[str] = []
        with self._lock:
            for name, series in sorted(self._counters.items()):
                lines += _head(name)
                lines += [f"{name}{_labels(key)} {_number(value)}" for key, value in sorted(series.items())]
            for name, rows in sorted(self._histograms.items()):
                lines += _head(name)
                for key, row in sorted(rows.items()):
                    for place, bound in enumerate(BUCKETS):
                        lines.append(f"{name}_bucket{_labels((*key, ('le', f'{bound:g}')))} {_number(row[place])}")
                    lines.append(f"{name}_bucket{_labels((*key, ('le', '+Inf')))} {_number(row[-1])}")
                    lines.append(f"{name}_sum{_labels(key)} {_number(row[-2])}")
                    lines.append(f"{name}_count{_labels(key)} {_number(row[-1])}")
        for name, value in gauges.items():
            lines += [*_head(name), f"{name} {_number(value)}"]
        return "\n".join(lines) + "\n"


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGESIZE")


def _head(name: str) -> list[str]:
    kind, text = HELP[name]
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _number(value: float) -> str:
    """All digits: rates are differences of numbers that have grown large."""
    return str(int(value)) if value == int(value) else repr(value)


def _labels(labels: Labels) -> str:
    def escape(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{key}="{escape(value)}"' for key, value in labels) + "}" if labels else ""
