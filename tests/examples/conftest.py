import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "sweep"))  # the tiny plans that sweeps are tested with
