"""One rank of several runs out of memory, for real."""

import pathlib
import shutil
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import TEXT, TRAINCTL, config_with, write  # noqa: E402
from lone_ranks import LoneRanks  # noqa: E402


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="this machine cannot limit one process")
def test_the_others_hear_which_rank_and_where(tmp_path):
    config = config_with(**{"model__max_seq_len": 4096, "data__seq_len": 4096, "backend__attention": "math",
                            "training__micro_batch_size": 8, "training__global_batch_size": 16,
                            "training__max_steps": 2, "data__validation_fraction": 0.0, "validation__interval": 0})
    write(tmp_path, config, TEXT * 300)
    limit = ["prlimit", f"--as={5 << 29}"]  # 2.5 GiB
    ranks = LoneRanks(tmp_path, 2, command=lambda rank: (limit if rank == 1 else []) + [TRAINCTL, "run", "config.json"])
    assert ranks.wait(300) == [1, 1], ranks.text()
    assert "error: out of memory in step 1, " in ranks[1].stderr
    assert "gradient buckets" in ranks[1].stderr and "fewer ranks on this host" in ranks[1].stderr
    assert "rank 1 failed: out of memory in step 1, " in ranks[0].stderr, ranks.text()
    for rank in ranks:
        assert "defect" not in rank.stderr and "frame #" not in rank.stderr
