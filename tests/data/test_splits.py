"""Class folders without a test set are split by a seed, class by class, and the split depends on names alone."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from pictures import class_folders, picture

from prunecast.data import Split, load, training_examples
from prunecast.errors import PrunecastError


def photos(top, **counts):
    """Write <class>/<number>.png, so many of each class."""
    seed = 0
    for name, count in counts.items():
        for number in range(count):
            picture(top / name / f"{number}.png", seed)
            seed += 1
    return top


def halves(data):
    return [source.labels.tolist() for source in (data.train, data.test)]


def test_every_class_is_split_in_proportion(place):
    data = load("folder", root=photos(place, cat=10, dog=20, owl=2))
    train, test = halves(data)
    assert [train.count(own) for own in range(3)] == [8, 16, 1]
    assert [test.count(own) for own in range(3)] == [2, 4, 1]
    assert data.class_names == ("cat", "dog", "owl")
    assert data.split == Split(test_share=0.2, seed=0)
    assert training_examples("folder", root=place) == 25


def test_the_split_depends_on_seed_and_names_alone(place, tmp_path):
    photos(place, cat=10, dog=20)
    first = load("folder", root=place)
    zipped = Path(shutil.make_archive(str(tmp_path / "photos"), "zip", tmp_path, place.name))
    shutil.copytree(place, tmp_path / "copy")
    for other in (zipped, tmp_path / "copy", zipped):  # the archive once more, from the cache
        again = load("folder", root=other)
        assert (again.digest, again.split) == (first.digest, first.split)
    assert load("folder", root=place, split=Split(seed=1)).digest != first.digest
    assert len(load("folder", root=place, split=Split(test_share=0.5)).test) == 15


def test_a_new_image_leaves_the_others_where_they_are(place):
    before = set(load_names(photos(place, cat=40, dog=5)))
    picture(place / "cat" / "new.png", 99)
    assert len(before ^ set(load_names(place)) - {"cat/new.png"}) <= 2


def load_names(place):
    from prunecast.data.files import Folder
    from prunecast.data.folders import find_folders

    return find_folders(("test",), None, Split())(Folder(base=place)).test.files


def test_data_with_a_test_half_keeps_it(place):
    class_folders(place)
    assert load("folder", root=place).split is None
    with pytest.raises(PrunecastError, match="already has a test set; remove test_share and split_seed"):
        load("folder", root=place, split=Split(seed=3))
    with pytest.raises(PrunecastError, match="digits already has a test set"):
        load("digits", split=Split(test_share=0.1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda top: photos(top, cat=3), "has only one class folder, cat; sort its images into at least two"),
        (lambda top: photos(top, cat=3, owl=1), "owl has only one image; add another one"),
        (lambda top: picture(top / "1.png", 0), "has no class folders"),
        (
            lambda top: class_folders(top / "x") or shutil.move(top / "x" / "test", top),
            "has no folder `train`",
        ),
    ],
)
def test_what_cannot_be_split_is_refused(place, make, message):
    make(place)
    if "train" in message:
        shutil.rmtree(place / "x")
    with pytest.raises(PrunecastError, match=message):
        load("folder", root=place)
