"""Makes docs/playing.gif, shipped policies at play, from their videos in results/policies: `python docs/playing.py`."""

from __future__ import annotations

import itertools
from pathlib import Path

import imageio.v3 as iio
import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

DOCS = Path(__file__).parent
VIDEOS = DOCS.parent / "results" / "policies"
# Of each video: its caption, and the second at which the excerpt begins.
EXCERPTS = {
    "pong": ("Pong", 62.0),
    "breakout": ("Breakout", 112.0),
    "minatar_space_invaders": ("MinAtar Space Invaders", 15.0),
    "walker2d": ("walker2d", 4.0),
    "reacher3": ("reacher3", 0.0),
}
SECONDS, FRAME_SECONDS, NOISE = 8.0, 0.07, 12
COLORS = 25  # of each column; all columns share a palette of 128, with one that is transparent
PICTURE, CAPTION, GAP = (160, 210), 20, 6


def pictures(name: str, start: float) -> list[Image.Image]:
    """The frames of an excerpt, cut to Atari's shape; MinAtar's squares stay whole, with bars."""
    video = VIDEOS / f"{name}.mp4"
    rate = iio.immeta(video, plugin="FFMPEG")["fps"]
    wanted = [int((start + t) * rate) for t in np.arange(0, SECONDS, FRAME_SECONDS)]
    frames = {i: frame for i, frame in enumerate(iio.imiter(video, plugin="FFMPEG")) if i in set(wanted)}
    fit = ImageOps.pad if name.startswith("minatar") else ImageOps.fit
    return [fit(Image.fromarray(frames[i]), PICTURE, Image.Resampling.LANCZOS) for i in wanted]


def main() -> None:
    width, height = PICTURE
    size = len(EXCERPTS) * (width + GAP) - GAP, height + CAPTION
    sheets = [Image.new("RGB", size, "white") for _ in np.arange(0, SECONDS, FRAME_SECONDS)]
    font = ImageFont.load_default(size=12)
    colors: list[int] = []
    for column, (name, (caption, start)) in enumerate(EXCERPTS.items()):
        left = column * (width + GAP)
        shown = pictures(name, start)
        sample = Image.fromarray(np.concatenate([np.asarray(picture) for picture in shown[::20]]))
        colors += sample.quantize(COLORS, method=Image.Quantize.MEDIANCUT, kmeans=2).getpalette()[: 3 * COLORS]
        for sheet, picture in zip(sheets, shown, strict=True):
            sheet.paste(picture, (left, 0))
            place = (left + width / 2, height + CAPTION / 2)
            ImageDraw.Draw(sheet).text(place, caption, fill="black", font=font, anchor="mm")
    # What does not move needs no bytes: the videos' noise goes, and all frames have one palette.
    for before, sheet in itertools.pairwise(sheets):
        still = np.abs(np.int16(sheet) - np.int16(before)).max(axis=-1) < NOISE
        sheet.paste(before, mask=Image.fromarray(still))
    palette = Image.new("P", (1, 1))
    palette.putpalette([*colors, 255, 255, 255])
    first, *rest = (sheet.quantize(palette=palette, dither=Image.Dither.NONE) for sheet in sheets)
    options = {"duration": int(1000 * FRAME_SECONDS), "loop": 0, "optimize": True}
    first.save(DOCS / "playing.gif", save_all=True, append_images=rest, **options)


if __name__ == "__main__":
    main()
