"""Pictures through the network, clips of a video, batches, and errors in one line."""

import re
import sys
from fractions import Fraction
from types import SimpleNamespace

import av
import numpy as np
import pytest
import torch

import enlcn
from enlcn.errors import UserError
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.video.decoding import Clip as Part
from enlcn.video.decoding import ahead
from enlcn.video.frames import FrameUpscaler
from enlcn.video.remux import decode_times
from tests.video.clips import Clip, decoded, packets, times, write_clip

SILENT = {"audio": None, "subtitles": None}


def test_pictures_are_what_upscale_makes_of_each(tmp_path, upscaled, model):
    """Lossless in and out, without chroma subsampling: only the rounding of YUV lies between."""
    lossless = {"codec": "ffv1", "options": {}, "pixel_format": "yuv444p"}
    source = write_clip(tmp_path / "clip.mkv", Clip(frames=5, **lossless, **SILENT))
    outcome = upscaled(source, tmp_path / "out.mkv", encode={"codec": "ffv1"})
    assert outcome.status == "done", outcome.message
    for before, after in zip(decoded(source), decoded(tmp_path / "out.mkv"), strict=True):
        rgb = before.to_ndarray(format="rgb24", src_colorspace="itu709", dst_colorspace="itu709")
        expected = enlcn.upscale(rgb, model=str(model), device="cpu").astype(int)
        result = after.to_ndarray(format="rgb24", src_colorspace="itu709", dst_colorspace="itu709").astype(int)
        assert np.abs(result - expected).max() <= 3
        assert np.abs(result - expected).mean() < 0.7


def test_a_clip_of_a_video(tmp_path, upscaled):
    source = write_clip(tmp_path / "long.mp4", Clip(frames=150, options={"g": "30", "crf": "20"}))
    outcome = upscaled(source, tmp_path / "part.mp4", clip=Part(Fraction(5, 2), Fraction(4)))
    assert outcome.status == "done", outcome.message
    shown = times(tmp_path / "part.mp4")
    start = next(t for t in times(source) if t >= Fraction(5, 2))
    assert shown == [t - start for t in times(source) if start <= t < 4]
    heard = packets(tmp_path / "part.mp4", "audio")
    assert {data for _, _, data in heard} < {data for _, _, data in packets(source, "audio")}
    assert 1.4 < sum(duration for _, duration, _ in heard) < 1.6
    assert upscaled(source, tmp_path / "first.mp4", clip=Part(frames=7)).status == "done"
    assert times(tmp_path / "first.mp4") == times(source)[:7]
    late = upscaled(source, tmp_path / "none.mp4", clip=Part(Fraction(99)))
    assert late.status == "failed"
    assert "no picture after --start 99" in late.message


def test_broadcast_times_start_at_zero_with_sound_in_step(tmp_path, upscaled):
    source = write_clip(tmp_path / "late.ts", Clip(frames=30, subtitles=None, time_base=Fraction(1, 90000)))
    assert upscaled(source, tmp_path / "out.mp4").status == "done"
    before = times(source)[0] - packets(source, "audio")[0][0]
    after = times(tmp_path / "out.mp4")[0] - packets(tmp_path / "out.mp4", "audio")[0][0]
    assert abs(before - after) < Fraction(1, 1000)
    assert packets(tmp_path / "out.mp4", "audio")[0][0] == 0


def test_odd_sides_are_made_even_where_chroma_needs_it(tmp_path, upscaled):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=4, **SILENT))
    outcome = upscaled(source, tmp_path / "out.mp4", scale=1.51)
    assert outcome.sr_size == (192, 108)
    assert "needs even sides" in outcome.told[0]
    assert decoded(tmp_path / "out.mp4")[0].width == 192


@pytest.mark.parametrize(("scale", "dtype", "deep"), [(2, "u1", False), (1.5, "u1", False), (2, "u2", True)])
def test_batches_give_what_single_frames_give(model, scale, dtype, deep):
    engine = Engine(enlcn.load(str(model)), EngineOptions(device="cpu"))
    rng = np.random.default_rng(0)
    top = np.iinfo(dtype).max + 1
    frames = [rng.integers(0, top, (24, 36, 3)).astype(dtype) for _ in range(3)]
    upscaler = FrameUpscaler(engine, (24, 36), (int(24 * scale), int(36 * scale)), 3, deep=deep)
    assert upscaler.batch == 3
    together = upscaler(frames)
    for frame, result in zip(frames, together, strict=True):
        (alone,) = upscaler([frame])
        assert result.dtype == alone.dtype == np.dtype(dtype)
        assert np.abs(result.astype(int) - alone.astype(int)).max() <= (1 if dtype == "u1" else 4)


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("no room"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_batches_that_do_not_fit_are_tried_once(model, error, monkeypatch):
    engine = Engine(enlcn.load(str(model)), EngineOptions(device="cpu"))
    frames = [np.full((24, 36, 3), value, np.uint8) for value in (10, 200)]
    upscaler = FrameUpscaler(engine, (24, 36), (48, 72), 2, deep=False)
    expected = [upscaler([frame])[0] for frame in frames]
    tried = []

    def too_large(*arguments, **options):
        tried.append(1)
        raise error

    monkeypatch.setattr("enlcn.video.frames.upscale_whole", too_large)
    for _ in range(2):
        assert all(np.array_equal(a, b) for a, b in zip(upscaler(frames), expected, strict=True))
    assert tried == [1]


def test_decoding_times_increase_and_never_follow_the_picture():
    shown = [0, 10, 15, 40, 41, 100]
    coded = [0, 40, 10, 15, 100, 41]
    decoding = decode_times(shown, coded, 10)
    assert decoding == sorted(set(decoding))
    assert all(d <= p for d, p in zip(decoding, coded, strict=True))


def test_ahead_passes_errors_on_and_stops():
    def numbers():
        yield 1
        raise UserError("broken")

    taken = ahead(numbers(), 2)
    assert next(taken) == 1
    with pytest.raises(UserError, match="broken"):
        next(taken)
    endless = ahead(iter(int, 1), 2)
    assert next(endless) == 0
    endless.close()  # its thread ends, or this test does not


@pytest.mark.parametrize(
    ("encode", "suffix", "message"),
    [
        ({"codec": "divx"}, ".mp4", "codec is 'divx'; choose from auto, h264, hevc, av1, vp9, ffv1, prores"),
        ({"codec": "h264"}, ".webm", "webm cannot hold libx264; it takes av1, vp9"),
        ({"crf": 70}, ".mp4", "--crf is 70; libx264 takes 0 .best. to 51"),
        ({"codec": "prores", "crf": 3}, ".mov", "--crf means nothing to prores_ks"),
        ({"preset": "warp"}, ".mp4", "--preset is 'warp'; libx264 has ultrafast"),
        ({"pixel_format": "rgb24"}, ".mp4", "--pixel-format is 'rgb24'; libx264 takes yuv420p"),
    ],
)
def test_impossible_encodings(tmp_path, upscaled, encode, suffix, message):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=3, **SILENT))
    outcome = upscaled(source, tmp_path / f"out{suffix}", encode=encode)
    assert outcome.status == "failed"
    assert __import__("re").search(message, outcome.message), outcome.message
    assert "\n" not in outcome.message
    assert not (tmp_path / f"out{suffix}").exists()


def test_files_that_are_no_video(tmp_path, upscaled):
    (tmp_path / "noise.mp4").write_bytes(np.random.default_rng(1).bytes(5000))
    assert "cannot be read as a video" in upscaled(tmp_path / "noise.mp4", tmp_path / "o.mp4").message
    assert "no such file" in upscaled(tmp_path / "gone.mp4", tmp_path / "o.mp4").message
    with av.open(str(tmp_path / "sound.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=48000)
        frame = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), format="fltp", layout="stereo")
        frame.sample_rate = 48000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    assert "holds no video stream" in upscaled(tmp_path / "sound.mp4", tmp_path / "o.mp4").message


def test_a_damaged_video_gives_what_it_has(tmp_path, upscaled):
    source = write_clip(tmp_path / "clip.ts", Clip(frames=60, subtitles=None))
    data = bytearray(source.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 6000] = np.random.default_rng(2).bytes(6000)
    source.write_bytes(data)
    outcome = upscaled(source, tmp_path / "out.mkv")
    assert outcome.status == "done", outcome.message
    assert 20 < len(decoded(tmp_path / "out.mkv")) <= 60
    assert re.fullmatch(r"(1 damaged packet was|\d+ damaged packets were) skipped", outcome.notes[-1])


def test_without_pyav_the_extra_is_named(tmp_path, upscaled, monkeypatch):
    source = write_clip(tmp_path / "clip.mp4", Clip(frames=3, **SILENT))
    monkeypatch.setitem(sys.modules, "av", None)
    advice = "pip install 'enlcn[video]', or '.[video]' in a clone"
    assert upscaled(source, tmp_path / "o.mp4").message == f"video needs the 'video' extra: {advice}"
    monkeypatch.setitem(sys.modules, "av", SimpleNamespace(VideoStream=object, __version__="17.1.0"))
    too_old = upscaled(source, tmp_path / "o.mp4").message
    assert too_old == f"video (PyAV 18 or later, not 17.1.0) needs the 'video' extra: {advice}"
