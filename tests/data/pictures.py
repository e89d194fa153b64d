"""Small image datasets for the tests, in their real layouts."""

import numpy as np
from PIL import Image


def pixels(seed, height=8, width=8):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def picture(file, seed, height=8, width=8):
    """Write one image; .png keeps the pixels exactly."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(seed, height, width)).save(file)


def class_folders(top, test="test", classes=("bird", "cat", "dog"), per_class=3, suffix="png", **size):
    """Write train/<class>/ and <test>/<class>/, images numbered by seeds 0, 1, 2 ..."""
    seed = 0
    for half in ("train", test):
        for name in classes:
            for number in range(per_class):
                picture(top / half / name / f"{number}.{suffix}", seed, **size)
                seed += 1


def tiny_imagenet(top, classes=("n01", "n02"), per_class=2):
    """Write TinyImageNet's layout, with its unlabelled test half."""
    (top).mkdir(parents=True)
    (top / "wnids.txt").write_text("\n".join(classes))
    for label, name in enumerate(classes):
        for number in range(per_class):
            picture(
                top / "train" / name / "images" / f"{name}_{number}.JPEG", label * per_class + number, 64, 64
            )
        (top / "train" / name / f"{name}_boxes.txt").write_text("")
    notes = [f"val_{number}.JPEG\t{classes[number % 2]}\t0\t32\t44\t62\n" for number in range(4)]
    for number in range(4):
        picture(top / "val" / "images" / f"val_{number}.JPEG", 50 + number, 64, 64)
        picture(top / "test" / "images" / f"test_{number}.JPEG", 90 + number, 64, 64)
    (top / "val" / "val_annotations.txt").write_text("".join(notes))
