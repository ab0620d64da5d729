"""Scripts in a Python of their own."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent


def subprocess_of(script, *arguments, quiet=False, **environment):
    """Standard output; `quiet` also refuses exceptions of entry points, which only show on stderr."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=600,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(TESTS)])} | environment, cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert not (quiet and "Error" in done.stderr), done.stderr[-4000:]
    return done.stdout
