"""What happens to the other ranks when one is stopped, killed, hung or refused (A4, B2, B9, I6)."""

import os
import pathlib
import signal
import socket
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from lone_ranks import LoneRanks  # noqa: E402
from mini import TRAINCTL, config_with, losses, metrics, steps, train, write  # noqa: E402
from ranks import LaunchedRanks, errors, param_hashes, signal_rank_at_step, start_ranks, train_ranks  # noqa: E402

ENDLESS = dict(training__max_steps=1000000, training__micro_batch_size=1, training__global_batch_size=12,
               lr_scheduler={"type": "constant"}, validation__interval=0, checkpoint__interval=0)
SMALL = dict(training__micro_batch_size=1, training__global_batch_size=12)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_stop_request_to_one_rank_stops_all_after_the_same_step(tmp_path, number, rank):
    ranks = start_ranks(tmp_path, 2, config_with(**ENDLESS))
    signal_rank_at_step(tmp_path, ranks, rank, 5, number)
    assert ranks.wait(20) == 75, ranks.text()
    step = steps(tmp_path)[-1]["step"]
    assert (tmp_path / f"runs/mini/checkpoints/step-{step}/COMPLETE").exists()
    assert "stopped by" in ranks[0].stdout and "to rank" not in ranks[0].stdout  # a launcher signals all
    assert not errors(ranks[0]) and not errors(ranks[1]), ranks.text()


def test_a_stopped_run_continues_as_if_it_had_not_stopped(tmp_path):
    config = config_with(training__max_steps=400, training__micro_batch_size=1, training__global_batch_size=6,
                         checkpoint__interval=100)
    gold, stopped = tmp_path / "gold", tmp_path / "stopped"
    gold.mkdir(), stopped.mkdir()
    gold_hashes = param_hashes(train_ranks(gold, 3, config, "--print-param-hash"))
    ranks = start_ranks(stopped, 3, config)
    signal_rank_at_step(stopped, ranks, 2, 7)
    assert ranks.wait(20) == 75, ranks.text()
    again = train_ranks(stopped, 3, config, "--print-param-hash")
    assert param_hashes(again) == gold_hashes and len(set(gold_hashes)) == 1
    assert losses(stopped) == losses(gold)


def test_max_time_ends_all_ranks(tmp_path):
    config = config_with(**{**ENDLESS, "training__max_steps": None, "training__max_time": 1})
    train_ranks(tmp_path, 2, config, expect=75)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_when_one_rank_is_killed_the_others_end_within_seconds(tmp_path, victim):
    write(tmp_path, config_with(**ENDLESS))
    ranks = LoneRanks(tmp_path, 3)
    signal_rank_at_step(tmp_path, ranks, victim, 5, signal.SIGKILL)
    begin = time.monotonic()
    codes = ranks.wait(15)
    assert time.monotonic() - begin < 8
    assert codes == [-9 if rank == victim else 1 for rank in range(3)], ranks.text()
    for rank in ranks:
        if rank.rank != victim:
            assert len(errors(rank)) == 1 and "another rank has ended" in errors(rank)[0], ranks.text()
            assert "defect" not in rank.stderr and "gloo" not in rank.stderr and "c10d" not in rank.stderr


def test_a_killed_run_can_be_run_again_at_once(tmp_path):
    config = config_with(**{**ENDLESS, "checkpoint__interval": 2})
    ranks = start_ranks(tmp_path, 2, config)
    signal_rank_at_step(tmp_path, ranks, 1, 6, signal.SIGKILL)
    assert ranks.wait(15) == 137, ranks.text()
    assert "rank 1 on " in ranks.stderr and "SIGKILL" in ranks.stderr
    assert not (tmp_path / "runs/mini/.lock").exists()
    step = max(line["step"] for line in steps(tmp_path))
    again = start_ranks(tmp_path, 2, config)
    signal_rank_at_step(tmp_path, again, 0, step + 5)
    assert again.wait(20) == 75, again.text()
    assert "resuming from" in again[0].stderr + again[0].stdout


@pytest.mark.parametrize("victim", [0, 1])
def test_a_stopped_rank_is_named_with_step_and_operation(tmp_path, victim):
    ranks = start_ranks(tmp_path, 3, config_with(parallel__timeout="4s", **ENDLESS))
    signal_rank_at_step(tmp_path, ranks, victim, 20, signal.SIGSTOP)
    pid = ranks[victim].pid
    begin = time.monotonic()
    assert ranks.wait(30) == 1, ranks.text()
    assert time.monotonic() - begin < 20  # the time limit, five seconds of looking, five of grace
    others = "\n".join(ranks[rank].stderr for rank in range(3) if rank != victim)
    assert "training hangs" in ranks.stderr and "parallel.timeout" in ranks.stderr, ranks.text()
    assert f"rank {victim}" in others and " step " in others
    if victim != 0:  # rank 0 serves the store, in which the others would look
        assert f"rank {victim} (" in others and "no sign of life" in others and f"process {pid}" in others, others


def test_a_rank_that_never_comes_is_named(tmp_path):
    write(tmp_path, config_with(parallel__timeout="3s"))
    ranks = LoneRanks(tmp_path, 2, WORLD_SIZE=3)
    assert ranks.wait(20) == [3, 3]
    assert "missing: 2" in ranks[0].stderr and "parallel.timeout" in ranks[0].stderr
    assert all(len(rank.stderr.splitlines()) == 1 for rank in ranks), ranks.text()  # c10d adds nothing


@pytest.mark.parametrize("level", [None, "ERROR"])
def test_a_store_that_never_comes_is_told_once_unless_c10d_was_asked_too(tmp_path, level):
    write(tmp_path, config_with(parallel__timeout="2s"))
    asked = {"TORCH_CPP_LOG_LEVEL": level} if level else {}
    ranks = LoneRanks(tmp_path, 1, RANK=1, WORLD_SIZE=2, **asked)
    assert ranks.wait(30) == [3]
    assert "cannot reach the run's store" in errors(ranks[0])[0]
    assert ("[c10d]" in ranks[0].stderr) == (level is not None), ranks.text()
    assert (len(ranks[0].stderr.splitlines()) == 1) == (level is None)


def test_bad_data_on_one_rank_ends_all_with_its_message_at_that_rank_only(tmp_path):
    # The file's name comes from a variable, which differs on rank 1.
    write(tmp_path, config_with(data__train=["${DATA}"], **SMALL))
    ranks = LoneRanks(tmp_path, 3, environments={r: {"DATA": "none.txt" if r == 1 else "data.txt"} for r in range(3)})
    assert ranks.wait(20) == [4, 4, 4], ranks.text()
    assert "none.txt" in errors(ranks[1])[0] and "because" not in errors(ranks[1])[0]
    for rank in (0, 2):
        assert len(errors(ranks[rank])) == 1 and "because rank 1 failed" in errors(ranks[rank])[0]
    assert not (tmp_path / "runs").exists()


def test_other_data_on_one_rank_is_refused(tmp_path):
    write(tmp_path, config_with(data__train=["${DATA}"], **SMALL))
    (tmp_path / "other.txt").write_text("another text of some length, " * 20)
    ranks = LoneRanks(tmp_path, 2, environments={0: {"DATA": "data.txt"}, 1: {"DATA": "other.txt"}})
    assert ranks.wait(20) == [4, 4], ranks.text()
    assert "rank 1 finds other data than rank 0" in ranks[1].stderr


def test_an_unwritable_folder_is_said_once(tmp_path):
    config = config_with(**SMALL)
    (tmp_path / "runs").write_text("a file where the folder should be")
    write(tmp_path, config)
    ranks = start_ranks(tmp_path, 4, None)
    assert ranks.wait(20) == 2, ranks.text()
    assert "is a file" in errors(ranks[0])[0] and ranks.stderr.count("is a file") == 1, ranks.text()
    assert not any(errors(rank) for rank in ranks if rank.rank > 0), ranks.text()


def test_another_config_on_one_rank_is_refused_naming_the_value(tmp_path):
    write(tmp_path, config_with())
    write(tmp_path, config_with(optimizer__learning_rate=0.002), name="other.json")
    ranks = LoneRanks(tmp_path, 2, lambda rank: "other.json" if rank else "config.json")
    assert ranks.wait(20) == [2, 2], ranks.text()
    assert "optimizer.learning_rate is 0.002, rank 0 has 0.001" in ranks[0].stderr


def test_a_name_that_does_not_resolve_is_refused_at_once(tmp_path):
    write(tmp_path, config_with())
    begin = time.monotonic()
    ranks = LoneRanks(tmp_path, 2, MASTER_ADDR="no-such-host.invalid")
    assert ranks.wait(30) == [3, 3]
    assert "no-such-host.invalid" in ranks[0].stderr and "MASTER_ADDR" in ranks[0].stderr
    assert time.monotonic() - begin < 20


def test_a_taken_port_is_refused_naming_it(tmp_path):
    write(tmp_path, config_with(parallel__timeout="3s"))
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ranks = LoneRanks(tmp_path, 2, MASTER_PORT=port)
        codes = ranks.wait(30)
    assert codes[0] == 3, ranks.text()
    assert f"port {port}" in ranks[0].stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a host name of one's own needs root")
def test_a_host_name_that_does_not_resolve_does_no_harm(tmp_path):
    write(tmp_path, config_with(**SMALL))
    ranks = LaunchedRanks(tmp_path, 2, ["--", "unshare", "-u", "bash", "-c",
                                        f"hostname bogus-name-nowhere && exec '{TRAINCTL}' run config.json"])
    assert ranks.wait(30) == 0, ranks.text()


def test_a_diverged_run_is_explained_once(tmp_path):
    config = config_with(optimizer__learning_rate=1e30, lr_scheduler={"type": "constant"}, training__max_steps=100,
                         training__micro_batch_size=1, training__global_batch_size=2)
    ranks = train_ranks(tmp_path, 2, config, expect=1)
    assert "training diverged" in errors(ranks[0])[0] and len(errors(ranks[0])) == 1
    assert errors(ranks[1]) == [] and ranks.stderr.count("training diverged") == 1, ranks.text()


def test_nothing_is_said_twice(tmp_path):
    ranks = train_ranks(tmp_path, 3, config_with(training__micro_batch_size=1, training__global_batch_size=3))
    assert ranks[1].stdout == ranks[1].stderr == ranks[2].stdout == ranks[2].stderr == ""
    assert "step 20/20" in ranks[0].stdout
    assert [line["step"] for line in steps(tmp_path)] == list(range(1, 21))


# Eight times the same target add up in the embedding's gradient, eight different ones do not: at a scale between, in
# fp16, the first window overflows and the second does not.
OVERFLOWS, DOES_NOT = "a" * 8, "kidQuzBY"


@pytest.mark.parametrize("windows", [OVERFLOWS + DOES_NOT, DOES_NOT + OVERFLOWS], ids=["rank 0", "rank 1"])
def test_fp16_overflow_on_one_rank_skips_the_step_on_all(tmp_path, windows):
    scale = 2.0**18

    def config(**changes):
        return config_with(**{**dict(data__shuffle=False, data__validation_fraction=0, validation__interval=0,
                                     training__micro_batch_size=1, training__global_batch_size=2), **changes},
                           precision={"dtype": "fp16", "grad_scaler": {"init_scale": scale}})

    def first_step(folder):
        line = steps(folder)[0]
        return line.get("skipped", False), line["loss_scale"]

    # By itself, with half the scale for half the batch, each window has the gradients of its rank.
    scale /= 2
    for name, text, skips in (("one", OVERFLOWS, True), ("other", DOES_NOT, False)):
        (tmp_path / name).mkdir()
        train(tmp_path / name, config(training__global_batch_size=1, training__max_steps=1), text=text + text[0])
        assert first_step(tmp_path / name) == (skips, scale / 2 if skips else scale)
    scale *= 2
    (tmp_path / "data.txt").write_text(windows + windows[0])
    ranks = train_ranks(tmp_path, 2, config(parallel__check_parameters_every=1), "--print-param-hash",
                        text_file=False)
    assert first_step(tmp_path) == (True, scale / 2)
    # A rank with another scale would scale its part of the sum by it, and the ranks would part.
    hashes = param_hashes(ranks)
    assert len(hashes) == 2 and len(set(hashes)) == 1
    skipped = [bool(line.get("skipped")) for line in steps(tmp_path)]
    assert not all(skipped) and steps(tmp_path)[-1]["loss_scale"] == scale / 2 ** sum(skipped)


def test_validation_and_early_stopping_are_agreed(tmp_path):
    config = config_with(training__max_steps=500, training__micro_batch_size=1, training__global_batch_size=4,
                         optimizer__learning_rate=1e-12, lr_scheduler={"type": "constant"}, validation__interval=3,
                         validation__early_stopping={"patience": 2})
    ranks = train_ranks(tmp_path, 2, config)
    assert "stopped early" in ranks[0].stdout
    assert steps(tmp_path)[-1]["step"] < 500


def test_time_intervals_are_kept_by_rank_0s_clock(tmp_path):
    config = config_with(**{**ENDLESS, "training__max_steps": None, "training__max_time": 4, "validation__interval": "1s",
                            "checkpoint__interval": "1s"})
    train_ranks(tmp_path, 2, config, expect=75)
    assert sum("validation_loss" in line for line in metrics(tmp_path)) > 1
    assert len(list((tmp_path / "runs/mini/checkpoints").iterdir())) > 1


def test_self_test_and_parameter_checks(tmp_path):
    config = config_with(parallel__self_test=True, parallel__bucket_mb=1, parallel__check_parameters_every=3,
                         training__micro_batch_size=1)
    ranks = train_ranks(tmp_path, 2, config)
    assert "GB/s bus bandwidth" in ranks[0].stdout


def test_metrics_name_the_slowest_rank(tmp_path):
    train_ranks(tmp_path, 2, config_with(training__max_steps=200, training__micro_batch_size=1))
    lines = steps(tmp_path)[2:]  # a step's times are known two steps later
    assert all(line["slowest_rank"] in (0, 1) and 1 <= line["slowest_rank_ratio"] <= 2 for line in lines)
    train(tmp_path, config_with(run__name="single"))
    assert all("slowest_rank" not in line for line in steps(tmp_path, "single"))


def test_a_restart_of_the_launch_continues_from_the_checkpoint(tmp_path):
    config = config_with(**{**ENDLESS, "training__max_steps": 300, "checkpoint__interval": 20})
    ranks = start_ranks(tmp_path, 2, config, flags=["--max-restarts", 1])
    signal_rank_at_step(tmp_path, ranks, 1, 45, signal.SIGKILL)
    assert ranks.wait(60) == 0, ranks.text()
    assert "resuming from" in ranks[0].stdout + ranks[0].stderr
    assert [line["step"] for line in steps(tmp_path)] == list(range(1, 301))
