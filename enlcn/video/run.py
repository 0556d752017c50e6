"""One video from file to file: decoded, upscaled and encoded by segments, then put together."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from enlcn.errors import UserError
from enlcn.files import atomic_write, refuse_to_overwrite, remove_leftovers
from enlcn.upscaling import memory
from enlcn.upscaling.batch import Batch, Outcome
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.target import Target
from enlcn.version import __version__
from enlcn.video.codecs import depth_of
from enlcn.video.decoding import Clip, Decoder, Picture, ahead, batches
from enlcn.video.early_end import early_end, seconds_shown
from enlcn.video.encoding import EncodeOptions, EncodePlan, SegmentEncoder, plan_encoding
from enlcn.video.frames import FrameUpscaler
from enlcn.video.jobs import VideoJob, container_for
from enlcn.video.probe import VideoFacts, probe
from enlcn.video.remux import RemuxPlan, check_output, remux
from enlcn.video.segments import Workspace, fingerprint, read_header

log = logging.getLogger(__name__)
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class VideoOptions:
    """What is done to every video, beside what is done to pictures.

    Attributes:
        encode: codec, quality, pixel format.
        clip: the part that is wanted.
        segment: pictures per segment; each starts with a key frame.
        batch: pictures that go through the network at a time; None takes what suits the device.
    """

    encode: EncodeOptions = field(default_factory=EncodeOptions)
    clip: Clip = field(default_factory=Clip)
    segment: int = 240
    batch: int | None = None

    def __post_init__(self) -> None:
        if self.segment < 1:
            raise UserError(f"--segment is {self.segment}; it must be at least 1")
        if self.batch is not None and self.batch < 1:
            raise UserError(f"--batch is {self.batch}; it must be at least 1")


def upscale_video(batch: Batch, job: VideoJob, options: VideoOptions, progress: Progress | None = None) -> Outcome:
    """Upscale one video; what is wrong with it ends up in the outcome.

    Args:
        batch: model, size, device, and whether outputs may be replaced: as for pictures.
        job: from where to where.
        options: what is special to video.
        progress: called with (pictures done, pictures in all or None).
    """
    start = time.perf_counter()
    names = (str(job.source), str(job.target))
    if job.target.exists() and batch.options.skip_existing:
        return Outcome(*names, status="skipped")
    try:
        outcome = _upscale(batch, job, options, progress)
    except (UserError, OSError) as error:
        told = str(error) if isinstance(error, UserError) else f"{names[1]}: {error.strerror or error}"
        return Outcome(*names, status="failed", message=told, seconds=time.perf_counter() - start)
    except Exception as error:  # whatever is wrong with one video, the others are still to be done
        log.debug("while upscaling %s", names[0], exc_info=True)
        told = f"{names[0]}: {memory.describe(error)}"
        return Outcome(*names, status="failed", message=told, seconds=time.perf_counter() - start)
    return replace(outcome, seconds=time.perf_counter() - start)


def _upscale(batch: Batch, job: VideoJob, options: VideoOptions, progress: Progress | None) -> Outcome:
    refuse_to_overwrite(job.target, batch.options.overwrite, can_skip=True)
    facts = probe(job.source)
    target: Target = batch.options.target
    encoding, told = plan_encoding(
        options.encode, facts, target.size(facts.height, facts.width), container_for(job.target)
    )
    decoder = Decoder(job.source, facts, options.clip)
    clip = options.clip
    plan = RemuxPlan(
        source=job.source,
        container=container_for(job.target),
        encoding=encoding,
        matrix=_scaled_matrix(facts, encoding),
        shift=decoder.first_tick() * facts.time_base,
        is_clip=clip.start is not None or clip.end is not None or clip.frames is not None,
    )
    engine = batch.engine_for(facts.height, facts.width)
    key = fingerprint(job.source, _settings(batch, options, engine, encoding))
    job.target.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(job.target.parent)
    with Workspace(job.target, key) as workspace:
        told += facts.notes + check_output(plan, workspace.folder, job.target)
        for note in told:
            log.warning("%s: %s", job.source.name, note)
        upscaler = FrameUpscaler(
            engine,
            (facts.height, facts.width),
            (encoding.height, encoding.width),
            options.batch,
            deep=depth_of(encoding.pixel_format) > 8,
        )
        run = _Run(workspace, decoder, upscaler, encoding, options, progress)
        resumed = run.segments()
        notes = tuple(upscaler.notes)
        if resumed:
            counted = "1 segment was" if resumed == 1 else f"{resumed} segments were"
            notes += (f"{counted} there from an earlier run",)
        ended = workspace.end_facts()
        paths = [workspace.path(index) for index in range(ended["segments"])]
        with atomic_write(job.target, overwrite=batch.options.overwrite) as temporary:
            damaged = ended["damaged"] + remux(plan, paths, temporary, job.target)
        if damaged:
            notes += ("1 damaged packet was skipped" if damaged == 1 else f"{damaged} damaged packets were skipped",)
        if early := early_end(facts, clip, ended["frames"], seconds_shown(paths, encoding.time_base)):
            notes += (early,)
        workspace.remove()
    return Outcome(
        str(job.source),
        str(job.target),
        status="done",
        lr_size=(facts.width, facts.height),
        model=batch.checkpoint_for(facts.height, facts.width),
        sr_size=(encoding.width, encoding.height),
        mode=f"{ended['frames']} frames, {encoding.encoder} {encoding.pixel_format}",
        precision=engine.precision,
        notes=notes,
        told=told,
    )


class _Run:
    """The segments of one video, those that are missing."""

    def __init__(
        self,
        workspace: Workspace,
        decoder: Decoder,
        upscaler: FrameUpscaler,
        encoding: EncodePlan,
        options: VideoOptions,
        progress: Progress | None,
    ):
        self.workspace, self.decoder, self.upscaler = workspace, decoder, upscaler
        self.encoding, self.options = encoding, options
        self._total = options.clip.count(decoder.facts)
        self._progress = progress or (lambda done, total: None)

    def segments(self) -> int:
        """Make what is missing; returns how many segments were there already."""
        there = index = self.workspace.complete()
        if self.workspace.ended and there >= self.workspace.end_facts()["segments"]:
            return there
        size = self.options.segment
        done = sum(read_header(self.workspace.path(number)).frames for number in range(there))
        self._progress(done, self._total)
        with closing(ahead(self.decoder.pictures(skip=done), 2 * self.upscaler.batch + 2)) as pictures:
            while (first := next(pictures, None)) is not None:
                count = self._segment(index, chain([first], islice(pictures, size - 1)), done)
                index, done = index + 1, done + count
        if done == 0:
            raise UserError(f"{self.decoder.path}: no picture in the part that was asked for")
        self.workspace.end({"segments": index, "frames": done, "damaged": self.decoder.damaged})
        return there

    def _segment(self, index: int, pictures: Iterator[Picture], done: int) -> int:
        """Upscale and encode one segment; the encoder works beside the network. Returns its number of pictures."""
        encoder = SegmentEncoder(self.encoding, self.workspace.target)
        count, last = 0, 1
        pending: Future[None] | None = None
        with ThreadPoolExecutor(1, "encoding") as pool:
            for group in batches(pictures, self.upscaler.batch):
                results = self.upscaler([picture.pixels for picture in group])
                if pending is not None:
                    pending.result()
                pending = pool.submit(_encode, encoder, results, [picture.pts for picture in group])
                count, last = count + len(group), group[-1].duration
                self._progress(done + count, max(self._total or 0, done + count))
            if pending is not None:
                pending.result()
        coded = encoder.finish()
        if len(coded) != count:
            raise UserError(f"{self.encoding.encoder} gave {len(coded)} pictures for {count}; try another --codec")
        self.workspace.write(index, coded, encoder.extradata, last)
        return count


def _encode(encoder: SegmentEncoder, results: list[Any], times: list[int]) -> None:
    for pixels, pts in zip(results, times, strict=True):
        encoder.add(pixels, pts)


def _scaled_matrix(facts: VideoFacts, encoding: EncodePlan) -> tuple[int, ...] | None:
    """The display matrix, with the shift in pixels that it may contain grown as the picture is."""
    if facts.matrix is None:
        return None
    a, b, u, c, d, v, x, y, w = facts.matrix
    turned = abs(b) > abs(a)
    across, down = encoding.width / facts.width, encoding.height / facts.height
    if turned:
        across, down = down, across
    return a, b, u, c, d, v, round(x * across), round(y * down), w


def _settings(batch: Batch, options: VideoOptions, engine: Engine, encoding: EncodePlan) -> dict[str, Any]:
    """All that a segment's bytes depend on, beside the source."""
    return {
        "version": __version__,
        "model": _weights(engine, batch.options.model),
        "engine": [str(engine.device), engine.precision, batch.options.engine.self_ensemble],
        "encoding": asdict(encoding),
        "clip": asdict(options.clip),
        "segment": options.segment,
        "batch": options.batch,
    }


def _weights(engine: Engine, model: str | None) -> str:
    """A digest of the network's weights: a name would not tell one file from another of the same name."""
    digest = hashlib.sha256(f"{model} {engine.network.config}".encode())
    for name, value in engine.network.state_dict().items():
        if not value.is_meta:
            digest.update(name.encode())
            digest.update(value.detach().float().cpu().numpy().tobytes())
    if model is not None and Path(model).is_file():  # a graph whose weights are in no network of ours
        digest.update(Path(model).read_bytes())
    return digest.hexdigest()
