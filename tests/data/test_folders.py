import shutil
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

sys.path.insert(0, str(Path(__file__).parent))
from pictures import class_folders, picture, pixels, tiny_imagenet

from prunecast.data import draw, load, survey
from prunecast.data.files import Folder
from prunecast.data.sources import cropped
from prunecast.errors import PrunecastError


def bytes_of(source):
    images = source.batch(torch.arange(len(source)), None).permute(0, 2, 3, 1)
    return (images / source.scale + source.mean).round().to(torch.uint8).numpy()


@pytest.mark.parametrize("test", ["test", "val"])
@pytest.mark.parametrize("top", ["", "mine"])
def test_class_folders(place, test, top):
    class_folders(place / top, test=test)
    (place / top / "train" / "cat" / "Thumbs.db").write_text("no image")
    (place / top / "train" / "cat" / "._0.png").write_text("no image")
    data = load("folder", root=place)
    assert np.array_equal(bytes_of(data.train), np.stack([pixels(seed) for seed in range(9)]))
    assert np.array_equal(bytes_of(data.test), np.stack([pixels(seed) for seed in range(9, 18)]))
    assert data.train.labels.tolist() == data.test.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert data.num_classes == 3
    assert data.chance_error == pytest.approx(2 / 3)


def test_what_is_done_to_images_and_what_their_classes_are_called(place, cache):
    class_folders(place, height=10, width=14)
    data = load("folder", root=place, image_size=8)
    how = data.preprocessing
    assert (how.size, how.shorter_side, how.value_range) == ((8, 8), 8, (0, 255))
    image = data.train.batch(torch.tensor([0]), None)[0, :, 3, 5]
    pixel = data.train.images[0, 3, 5]
    assert torch.allclose(image, (pixel - torch.tensor(how.mean)) / torch.tensor(how.std))
    assert data.class_names == ("bird", "cat", "dog")
    for missing in (*cache.glob("*/classes.json"), *cache.glob("*/about.sha256")):
        missing.unlink()  # as an earlier prunecast left the cache
    assert load("folder", root=place, image_size=8).class_names == ("bird", "cat", "dog")


ARCHIVES = {"tar": "w", "tar.gz": "w:gz", "tar.xz": "w:xz", "tar.bz2": "w:bz2", "zip": None}


@pytest.mark.parametrize("suffix", ARCHIVES)
@pytest.mark.parametrize("top", ["", "svhn"])
def test_archives_of_class_folders_read_like_the_folders(place, tmp_path, cache, suffix, top):
    class_folders(place / top)
    archive = tmp_path / f"set.{suffix}"
    if suffix == "zip":
        shutil.make_archive(str(tmp_path / "set"), "zip", place)
    else:
        with tarfile.open(archive, ARCHIVES[suffix]) as tar:
            tar.add(place, ".")
    from_archive, from_folder = load("folder", root=archive), load("folder", root=place)
    assert from_archive.digest == from_folder.digest
    assert from_archive.class_names == from_folder.class_names == ("bird", "cat", "dog")
    assert np.array_equal(bytes_of(from_archive.test), bytes_of(from_folder.test))
    assert not [left for left in cache.iterdir() if left.name.startswith(".partial")]


@pytest.mark.parametrize("form", ["folder", "zip", "beside zip"])
def test_tiny_imagenet_with_its_own_val_layout(place, form):
    top = place / "tiny-imagenet-200"
    tiny_imagenet(top)
    root = place
    if "zip" in form:
        root = Path(shutil.make_archive(str(place / "tiny-imagenet-200"), "zip", place, top.name))
        shutil.rmtree(top)
        root = root.parent if form == "beside zip" else root
    data = load("tinyimagenet", root=root)
    assert data.train.image_shape == (3, 64, 64)
    assert data.train.labels.tolist() == [0, 0, 1, 1]
    assert data.test.labels.tolist() == [0, 1, 0, 1]


def test_changed_annotations_are_read_anew(place):
    tiny_imagenet(place / "tiny")
    load("tinyimagenet", root=place)
    notes = place / "tiny" / "val" / "val_annotations.txt"
    notes.write_text(notes.read_text().replace("n02", "n01"))
    assert load("tinyimagenet", root=place).test.labels.tolist() == [0, 0, 0, 0]


def test_a_test_class_keeps_its_number_when_others_are_absent(place):
    class_folders(place)
    shutil.rmtree(place / "test" / "bird")
    assert load("folder", root=place).test.labels.tolist() == [1, 1, 1, 2, 2, 2]


def test_grey_and_transparent_images_become_rgb(place):
    class_folders(place)
    Image.fromarray(pixels(0)[..., 0]).save(place / "train" / "bird" / "0.png")
    Image.fromarray(np.dstack((pixels(1), pixels(2)[..., :1]))).save(place / "train" / "bird" / "1.png")
    first = bytes_of(load("folder", root=place).train)
    assert np.array_equal(first[0], np.repeat(pixels(0)[..., :1], 3, axis=2))
    assert np.array_equal(first[1], pixels(1))


def test_image_size_scales_and_crops_to_the_centre(place):
    class_folders(place, height=8, width=8)
    picture(place / "train" / "bird" / "0.png", 0, height=8, width=14)
    data = load("folder", root=place, image_size=8)
    assert np.array_equal(bytes_of(data.train)[0], pixels(0, 8, 14)[:, 3:11])
    assert load("folder", root=place, image_size=4).train.image_shape == (3, 4, 4)


def corrupt(place):
    (place / "train" / "cat" / "1.png").write_bytes(b"\x89PNG not really")


def cut_short(place):
    file = place / "train" / "cat" / "1.png"
    file.write_bytes(file.read_bytes()[:-60])


def other_size(place):
    picture(place / "train" / "cat" / "1.png", 1, height=9)


def all_test_images_larger(place):
    shutil.rmtree(place / "test")
    class_folders(place / "larger", height=9, width=9)
    (place / "larger" / "test").rename(place / "test")
    shutil.rmtree(place / "larger")


def unknown_class(place):
    picture(place / "test" / "cow" / "1.png", 1)


def empty_class(place):
    (place / "train" / "ant").mkdir()
    (place / "train" / "ant" / "note.txt").write_text("no image")


def bare_class(place):
    (place / "train" / "ant").mkdir()


def dangling(place):
    (place / "train" / "cat" / "9.png").symlink_to(place / "gone.png")


def no_test(place):
    shutil.rmtree(place / "test")


def flat_test(place):
    no_test(place)
    picture(place / "test" / "1.png", 1)


def no_train(place):
    shutil.rmtree(place / "train")


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (corrupt, r"cat/1\.png is not a readable image"),
        (cut_short, r"cat/1\.png is not a readable image"),
        (other_size, r"cat/1\.png has 8x9 pixels, but .*bird/0\.png has 8x8; set image_size"),
        (all_test_images_larger, r"test/bird/0\.png has 9x9 pixels, but .*train/bird/0\.png has 8x8"),
        (unknown_class, r"test/cow is a class that .*train does not have"),
        (empty_class, r"train/ant has no images"),
        (bare_class, r"train/ant has no images; add some or remove the folder"),
        (dangling, r"cat/9\.png cannot be read \(No such file"),
        (no_test, r"has no folder `test` or `val`"),
        (flat_test, r"test has no class folders"),
        (no_train, r"has no folder `train`"),
    ],
)
def test_harm_is_named(place, cache, harm, message):
    class_folders(place)
    harm(place)
    with pytest.raises(PrunecastError, match=message):
        load("folder", root=place)
    assert not [left for left in cache.glob("*") if not left.name.endswith(".lock")]


@pytest.mark.parametrize("top", ["", "mine"])
def test_an_empty_class_folder_without_a_split_is_named(place, top):
    class_folders(place / "both")
    shutil.copytree(place / "both" / "train", place / "photos" / top)
    (place / "photos" / top / ".cache").mkdir()
    assert load("folder", root=place / "photos").num_classes == 3
    (place / "photos" / top / "ant").mkdir()
    for read in (lambda: load("folder", root=place / "photos"), lambda: survey(place / "photos")):
        with pytest.raises(PrunecastError, match="ant has no images; add some or remove the folder"):
            read()


def test_all_unreadable_images_of_both_halves_are_named_at_once(place, cache):
    class_folders(place)
    corrupt(place)
    cut_short(place)
    for name in ("cat/2.png", "dog/1.png"):
        (place / "train" / name).write_bytes(b"broken")
    (place / "test" / "dog" / "1.png").write_bytes(b"")
    with pytest.raises(PrunecastError) as refused:
        load("folder", root=place)
    said = str(refused.value)
    assert "4 images cannot be read" in said
    for name in ("test/dog/1.png", "train/cat/1.png", "train/cat/2.png", "train/dog/1.png"):
        assert f"{place / name}" in said
    assert "0x" not in said
    assert "name=" not in said


def test_a_survey_leaves_unreadable_images_to_the_loading(place):
    class_folders(place)
    whole = survey(place)
    corrupt(place)
    assert survey(place).sizes == whole.sizes
    for file in (place / "train").glob("*/*.png"):
        file.write_bytes(b"broken")
    with pytest.raises(PrunecastError, match="is not a readable image; repair or remove it"):
        survey(place)


@pytest.mark.parametrize("size", [(37, 52), (52, 37), (16, 16), (9, 30)])
def test_pillow_prepares_an_image_as_the_card_of_a_network_says(place, size):
    height, width = size
    class_folders(place, height=height, width=width)
    own = load("folder", root=place, image_size=16).test.images.numpy()
    files = sorted((place / "test").glob("*/*.png"))
    for read, file in zip(own, files, strict=True):
        with Image.open(file) as image:
            fitted = ImageOps.fit(image.convert("RGB"), (16, 16), Image.Resampling.BILINEAR)
        assert np.array_equal(read, np.asarray(fitted))


def test_files_that_vanish_while_reading_are_named(place):
    class_folders(place, test="val")
    source = load("imagenet", root=place, image_size=8).train
    (place / "train" / "cat" / "1.png").unlink()
    with pytest.raises(PrunecastError, match=r"cat/1\.png cannot be read \(No such file"):
        source.batch(torch.arange(9), None)


def test_linked_class_folders_are_followed(place, tmp_path):
    class_folders(tmp_path / "elsewhere")
    for half in ("train", "test"):
        (place / half).mkdir()
        for name in ("bird", "cat", "dog"):
            (place / half / name).symlink_to(tmp_path / "elsewhere" / half / name)
    linked, plain = load("folder", root=place), load("folder", root=tmp_path / "elsewhere")
    assert linked.digest == plain.digest


def test_harm_inside_an_archive_is_named_by_the_archive(place, tmp_path):
    class_folders(place)
    corrupt(place)
    archive = shutil.make_archive(str(tmp_path / "mine"), "zip", place)
    with pytest.raises(PrunecastError, match=r"mine\.zip/train/cat/1\.png is not a readable image"):
        load("folder", root=Path(archive))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text + "val_9.JPEG\tn01\t0\n", r"val_9\.JPEG is missing"),
        (lambda text: text.split("\n", 1)[1], r"val_0\.JPEG has no label in .*val_annotations\.txt"),
        (
            lambda text: text.replace("n02", "n77", 1),
            r"val_annotations\.txt line 2 does not name an image and a class",
        ),
        (
            lambda text: text + "../../x.JPEG\tn01\t0\n",
            r"val_annotations\.txt line 5 does not name an image and a class",
        ),
    ],
)
def test_wrong_annotations_are_named(place, change, message):
    tiny_imagenet(place / "tiny")
    notes = place / "tiny" / "val" / "val_annotations.txt"
    notes.write_text(change(notes.read_text()))
    with pytest.raises(PrunecastError, match=message):
        load("tinyimagenet", root=place)


def test_imagenet_streams(place, cache):
    class_folders(place, test="val", suffix="JPEG", height=30, width=40)
    data = load("imagenet", root=place, image_size=16)
    assert data.train.streams
    assert data.train.image_shape == (3, 16, 16)
    assert data.train.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    draws = draw("resized-crop", 4, data.train.image_shape, np.random.default_rng(0))
    indices = torch.tensor([5, 0, 8, 5])
    batch = data.train.batch(indices, draws)
    assert batch.shape == (4, 3, 16, 16)
    again = torch.cat([data.train.batch(indices[i : i + 1], draws[i : i + 1]) for i in range(4)])
    assert torch.equal(batch, again)
    assert not torch.equal(batch[0], batch[3])
    assert data.test.batch(indices, None).shape == (4, 3, 16, 16)
    shifts = draw("flip-shift", 4, data.train.image_shape, np.random.default_rng(0))
    assert data.train.batch(indices, shifts).shape == (4, 3, 16, 16)
    assert not cache.exists()


def test_streamed_crops_take_the_box_the_draws_say(tmp_path):
    steps = np.zeros((60, 90, 3), np.uint8)
    steps[:30, :, 0], steps[:, :45, 1] = 200, 100
    file = tmp_path / "steps.png"
    Image.fromarray(steps).save(file)
    corner = torch.tensor([400 / 5400, 1.0, 0.0, 0.0])  # 20 × 20 pixels at the top left
    tree = Folder(base=tmp_path)
    assert (cropped(tree, file.name, corner, False, 10) == [200, 100, 0]).all()
    whole = torch.tensor([1.0, 1.5, 0.0, 0.0])
    plain, mirrored = (cropped(tree, file.name, whole, flip, 10) for flip in (False, True))
    assert plain[1, 1].tolist() == [200, 100, 0]
    assert plain[8, 8].tolist() == [0, 0, 0]
    assert np.array_equal(mirrored, plain[:, ::-1])


def test_streaming_names_the_corrupt_file_and_the_flat_val(place):
    class_folders(place, test="val")
    corrupt(place)
    with pytest.raises(PrunecastError, match=r"cat/1\.png is not a readable image"):
        load("imagenet", root=place, image_size=8).train.batch(torch.arange(9), None)
    shutil.rmtree(place / "val")
    picture(place / "val" / "ILSVRC2012_val_00000001.png", 1)
    with pytest.raises(PrunecastError, match="val has no class folders"):
        load("imagenet", root=place)
