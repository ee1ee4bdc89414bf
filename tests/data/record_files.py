#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of tests/data/files with NumPy and Pillow, and prints what the decoder of Pillow reads from the JPEGs."""
from pathlib import Path

import numpy as np
from PIL import Image

folder = Path(__file__).parent / "files"
folder.mkdir(exist_ok=True)

arrays = {
    "float32": np.array([[1, -2, 3.5], [4, 5, 6]], dtype="<f4"),
    "fortran": np.asfortranarray(np.array([[1, 2, 3], [4, 5, -6]], dtype="<i2")),
    "big": np.array([1.5, -2.25], dtype=">f8"),
    "bools": np.array([True, False, True]),
    "half": np.array([0.5, 65504], dtype="<f2"),
    "complex": np.array([1 + 2j, -3j], dtype="<c16"),
    "scalar": np.array(-7, dtype="<i8"),
    "empty": np.zeros((0, 3), dtype="<u4"),
    "objects": np.array([{}, None], dtype=object),
    "texts": np.array(["a", "bc"]),
}
for name, array in arrays.items():
    np.save(folder / f"{name}.npy", array, allow_pickle=True)
np.savez_compressed(folder / "arrays.npz", weight=arrays["float32"], bias=arrays["big"])

grey = np.array([[0, 85, 170], [255, 1, 2]], dtype=np.uint8)
colour = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [10, 20, 30]]], dtype=np.uint8)
Image.fromarray(grey).save(folder / "grey.png")
Image.fromarray(colour).save(folder / "rgb.png")
Image.fromarray(np.dstack([colour, np.array([[0, 64], [128, 255]], dtype=np.uint8)])).save(folder / "rgba.png")
Image.fromarray(grey).convert("1").save(folder / "one_bit.png")
Image.fromarray(np.array([[0, 257, 65535]], dtype=np.uint16)).save(folder / "deep.png")
palette = Image.fromarray(np.array([[0, 1, 2]], dtype=np.uint8)).convert("P")
palette.putpalette([1, 2, 3, 40, 50, 60, 255, 254, 253])
palette.save(folder / "palette.png", transparency=bytes([255, 7, 0]))

ramp = np.add.outer(np.arange(16) * 8, np.arange(16) * 4).astype(np.uint8)
Image.fromarray(ramp).save(folder / "grey.jpg", quality=95)
Image.fromarray(np.dstack([ramp, 255 - ramp, np.full_like(ramp, 60)])).save(folder / "rgb.jpg", quality=95)
Image.fromarray(np.dstack([ramp] * 4), mode="CMYK").save(folder / "cmyk.jpg")
for name in ["grey.jpg", "rgb.jpg"]:
    pixels = np.asarray(Image.open(folder / name)).astype(int)
    print(name, pixels.shape, pixels[3, 5].tolist(), pixels[15, 15].tolist(), pixels[0, 0].tolist())
