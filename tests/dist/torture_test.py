"""A short torture; scripts/torture.py --kills 200 is the long one."""

import os
import subprocess
import sys

SOURCE = os.environ["TRAINCTL_SOURCE"]


def test_nine_kills_at_one_two_and_three_ranks_lose_nothing():
    done = subprocess.run([sys.executable, f"{SOURCE}/scripts/torture.py", "--kills", "9", "--steps", "40", "--verbose",
                           "--trainctl", os.environ["TRAINCTL_BIN"] + "/trainctl"],
                          capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
