"""A short soak; scripts/soak_launch.py --launches 200 is the long one."""

import os
import subprocess
import sys

SOURCE = os.environ["TRAINCTL_SOURCE"]


def test_twenty_launches_with_random_kills_leave_nothing_and_tell_the_truth():
    done = subprocess.run([sys.executable, f"{SOURCE}/scripts/soak_launch.py", "--launches", "20", "--verbose",
                           "--trainctl", os.environ["TRAINCTL_BIN"] + "/trainctl"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
