"""A cluster that is started here refuses clients without its token, and imports nothing from the current folder."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rays import need_ray
from small import BRIEF, PRUNECAST

from prunecast.clusters.ray import OLDEST, check_version
from prunecast.errors import PrunecastError

need_ray()
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
CALL = """
import sys
from ray._raylet import GcsClient
try:
    GcsClient(address=sys.argv[1]).internal_kv_keys(b"", None, 5)
    print("let in")
except Exception as failure:
    print(type(failure).__name__)
"""
START = """
import os, subprocess, sys
from prunecast.clusters.ray import joined
with joined() as ray:
    call = [sys.executable, "-c", sys.argv[1], ray.get_runtime_context().gcs_address]
    for mode in ("disabled", "token"):
        subprocess.run(call, env={**os.environ, "RAY_AUTH_MODE": mode}, check=True)
"""


@pytest.mark.parametrize("version", ["2.40.0", "2.51.1", "1.13.0"])
def test_a_ray_without_tokens_is_refused(version):
    with pytest.raises(PrunecastError, match=r"needs 2\.52 or later: .*; pip install 'ray>=2\.52'"):
        check_version(version)


def test_the_oldest_ray_is_the_one_that_the_package_asks_for():
    asked = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]["ray"]
    assert asked == [f"ray>={'.'.join(map(str, OLDEST))}"]
    for version in ("2.52.0", "2.60.0", "3.0.0.dev0"):
        check_version(version)


@pytest.fixture
def environment(tmp_path):
    """An empty home folder, so that no other cluster's token is found."""
    own = {name: value for name, value in os.environ.items() if name not in ("RAY_AUTH_MODE", "RAY_ADDRESS")}
    (tmp_path / "home").mkdir()
    return {**own, "HOME": str(tmp_path / "home")}


@pytest.mark.slow
def test_a_cluster_that_is_started_here_lets_nobody_in_without_its_token(environment):
    done = subprocess.run(
        [sys.executable, "-c", START, CALL], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.split("\n")[:2] == ["AuthenticationError", "let in"]


@pytest.mark.slow
def test_modules_in_the_current_folder_take_the_place_of_no_installed_one(tmp_path, environment):
    for name in ("rich", "numpy", "torch", "json", "tempfile"):
        (tmp_path / f"{name}.py").write_text(
            "raise SystemExit('a module in the current folder was imported')"
        )
    (tmp_path / "plan.toml").write_text(BRIEF.replace("level_cap = 2", "level_cap = 0"))
    command = [*PRUNECAST[:1], "-P", *PRUNECAST[1:], "run", "plan.toml", "--store", "store", "--on", "ray"]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "4 chains finished" in done.stdout
