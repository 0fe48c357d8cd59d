"""The job scripts of scripts/slurm on a real two-node Slurm, submitted as they are."""

import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from devcluster import SCRIPTS, Cluster, why_not  # noqa: E402
from mini import TRAINCTL, config_with, losses, steps, train, write  # noqa: E402

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"this machine cannot run a Slurm: {why_not()}")

# Four sequences a step: four micro-batches of one process, two of two, one of four.
CONFIG = config_with(training__micro_batch_size=1, training__global_batch_size=4)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        yield cluster.start()
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def gold(tmp_path_factory):
    """The losses of the same config in one process, without Slurm."""
    folder = tmp_path_factory.mktemp("gold")
    train(folder, CONFIG)
    return losses(folder)


@pytest.mark.parametrize("script, flags, variables", [
    ("one_node.sbatch", [], {"NPROC": "1"}),
    ("one_node.sbatch", [], {"NPROC": "2"}),
    ("several_nodes.sbatch", [], {"NPROC": "1"}),
    ("several_nodes.sbatch", [], {"NPROC": "2"}),
    ("task_per_gpu.sbatch", [], {}),
    ("task_per_gpu.sbatch", ["--nodes=1"], {}),
    ("requeue.sbatch", [], {"NPROC": "2"}),
])
def test_a_script_trains_as_one_process_does(cluster, gold, tmp_path, script, flags, variables):
    write(tmp_path, CONFIG)
    cluster.finish(script, *flags, cwd=tmp_path, CONFIG="config.json", **variables)
    assert losses(tmp_path) == pytest.approx(gold, rel=1e-5)


def test_an_array_trains_its_configs(cluster, tmp_path):
    for name in ("a", "b"):
        write(tmp_path, config_with(run__name=name), name=f"{name}.json")
    text = cluster.finish("array.sbatch", cwd=tmp_path, CONFIGS="*.json", NPROC="1")
    assert len(losses(tmp_path, "a")) == len(losses(tmp_path, "b")) == 20, text


def test_an_array_larger_than_its_configs_says_so(cluster, tmp_path):
    write(tmp_path, config_with(training__micro_batch_size=1))
    text = cluster.finish("array.sbatch", "--array=3", cwd=tmp_path, expect=2, CONFIGS="config.json")
    assert "submit with --array=0-0" in text


def test_the_batch_script_itself_is_one_process(cluster, gold, tmp_path):
    write(tmp_path, CONFIG)
    done = cluster.run("sbatch", "--wait", "--ntasks=4", "--nodes=2", "--output=log", f"--wrap={TRAINCTL} run config.json",
                       cwd=tmp_path)
    assert done.returncode == 0, (tmp_path / "log").read_text()
    assert losses(tmp_path) == pytest.approx(gold, rel=1e-6)


def test_an_interactive_allocation_is_one_process(cluster, tmp_path):
    write(tmp_path, CONFIG)
    done = cluster.run("salloc", "--ntasks=4", TRAINCTL, "run", "config.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(losses(tmp_path)) == 20


def test_a_job_without_its_config_ends_with_the_programs_code(cluster, tmp_path):
    text = cluster.finish("several_nodes.sbatch", cwd=tmp_path, expect=2, CONFIG="missing.json", NPROC="1")
    assert "missing.json" in text


def test_a_rank_without_its_data_is_named_on_all_nodes(cluster, tmp_path):
    write(tmp_path, config_with(training__micro_batch_size=1, data__train=["missing.txt"]))
    text = cluster.finish("several_nodes.sbatch", cwd=tmp_path, expect=4, CONFIG="config.json", NPROC="1")
    assert "missing.txt" in text


def test_flags_that_contradict_the_job_are_refused_with_both_values(cluster, tmp_path):
    write(tmp_path, config_with(training__micro_batch_size=1))
    done = cluster.run("srun", "--nodes=2", "--ntasks-per-node=1", TRAINCTL, "launch", "--nnodes", "4", "config.json",
                       cwd=tmp_path)
    assert done.returncode == 2
    assert "--nnodes is 4, but Slurm's SLURM_STEP_NUM_NODES is 2" in done.stderr


def test_several_launchers_on_one_node_are_refused_with_the_cure(cluster, tmp_path):
    write(tmp_path, config_with(training__micro_batch_size=1))
    done = cluster.run("srun", "--nodes=1", "--ntasks=2", TRAINCTL, "launch", "config.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "--ntasks-per-node=1" in done.stderr


# --- stopping and going on ------------------------------------------------------------------------------

LONG = config_with(training__micro_batch_size=1, training__global_batch_size=4, training__max_steps=4000, validation__interval=1000, checkpoint__interval=1000)


def wait_for_step(folder, step, timeout=60):
    path = pathlib.Path(folder) / "runs" / "mini" / "metrics.jsonl"
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().count('"loss"') >= step:
            return
        time.sleep(0.05)
    raise AssertionError(f"step {step} was not reached within {timeout} s")


def test_a_job_near_its_time_limit_is_requeued_and_goes_on(cluster, tmp_path):
    write(tmp_path, LONG)
    job = cluster.submit("requeue.sbatch", cwd=tmp_path, CONFIG="config.json", NPROC="1")
    wait_for_step(tmp_path, 50)
    # What Slurm sends ahead of the limit: to the steps, not to the script.
    assert cluster.run("scancel", "--signal=USR1", job).returncode == 0
    state, code = cluster.wait(job)
    text = (tmp_path / f"trainctl-{job}.log").read_text()
    assert (state, code) == ("COMPLETED", 0), text
    assert cluster.fields(job)["Restarts"] == "1"
    assert "going back into the queue" in text
    assert [line["step"] for line in steps(tmp_path)] == list(range(1, 4001))


def test_a_cancelled_job_saves_a_checkpoint_and_does_not_come_back(cluster, tmp_path):
    write(tmp_path, LONG)
    job = cluster.submit("requeue.sbatch", cwd=tmp_path, CONFIG="config.json", NPROC="1")
    wait_for_step(tmp_path, 50)
    assert cluster.run("scancel", job).returncode == 0
    state, _ = cluster.wait(job)
    assert state == "CANCELLED"
    assert list((tmp_path / "runs" / "mini" / "checkpoints").glob("step-*"))
    assert cluster.fields(job)["Restarts"] == "0"


def complete_checkpoints(folder):
    return list((folder / "runs" / "mini" / "checkpoints").glob("step-*/COMPLETE"))


@pytest.mark.parametrize("script", ["one_node.sbatch", "several_nodes.sbatch", "requeue.sbatch"])
def test_a_cancelled_job_leaves_a_complete_checkpoint(cluster, tmp_path, script):
    write(tmp_path, LONG)
    flags = ["--nodes=2"] if script == "requeue.sbatch" else []
    job = cluster.submit(script, *flags, cwd=tmp_path, CONFIG="config.json", NPROC="1")
    wait_for_step(tmp_path, 50)
    assert complete_checkpoints(tmp_path) == []
    assert cluster.run("scancel", job).returncode == 0
    state, _ = cluster.wait(job)
    text = (tmp_path / f"trainctl-{job}.log").read_text()
    assert state == "CANCELLED"
    assert complete_checkpoints(tmp_path), text
    assert "killed at once" not in text


def test_a_requeued_job_of_two_nodes_saves_a_checkpoint_first(cluster, tmp_path):
    write(tmp_path, LONG)
    job = cluster.submit("requeue.sbatch", "--nodes=2", cwd=tmp_path, CONFIG="config.json", NPROC="1")
    wait_for_step(tmp_path, 50)
    assert cluster.run("scontrol", "requeue", job).returncode == 0
    deadline = time.monotonic() + 30
    while not complete_checkpoints(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    text = (tmp_path / f"trainctl-{job}.log").read_text()
    assert cluster.run("scancel", job).returncode == 0
    assert complete_checkpoints(tmp_path) and "killed at once" not in text, text


# --- the scripts and the cluster themselves ---------------------------------------------------------------


def test_the_scripts_start_where_a_cluster_has_no_gpus():
    for script in SCRIPTS.glob("*.sbatch"):
        lines = [line for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
        assert lines and not any("gpu" in line or "gres" in line for line in lines), script


def test_stopping_the_cluster_leaves_no_process(tmp_path):
    cluster = Cluster(tmp_path).start()
    assert "idle" in cluster.devcluster("status").stdout
    cluster.stop()
    left = subprocess.run(["pgrep", "--full", str(tmp_path)], capture_output=True, text=True).stdout
    assert left == ""
    assert cluster.devcluster("status").returncode == 3


def test_the_launcher_requeues_the_job_itself(cluster, tmp_path):
    write(tmp_path, LONG)
    job = cluster.run("sbatch", "--parsable", "--requeue", "--nodes=1", "--open-mode=append", "--output=trainctl-%j.log",
                      "--wrap", "srun --kill-on-bad-exit=0 $TRAINCTL launch --requeue --nproc 1 config.json",
                      cwd=tmp_path).stdout.strip()
    wait_for_step(tmp_path, 50)
    assert cluster.run("scancel", "--signal=USR1", job).returncode == 0
    state, code = cluster.wait(job, timeout=240)
    text = (tmp_path / f"trainctl-{job}.log").read_text()
    assert (state, code) == ("COMPLETED", 0), text
    assert cluster.fields(job)["Restarts"] == "1"
    assert "back into the queue" in text
    assert [line["step"] for line in steps(tmp_path)] == list(range(1, 4001))
