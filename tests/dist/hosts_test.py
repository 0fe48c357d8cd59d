"""Two hosts in network namespaces: they meet, train as one process does, and nothing that happens to one
leaves the other waiting."""

import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from hosts import Hosts, finish, why_not  # noqa: E402
from mini import TRAINCTL, config_with, losses, train, write  # noqa: E402

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"this machine cannot play two hosts: {why_not()}")

ENDPOINT = ("--nnodes", "2", "--rdzv-endpoint", "host-a:29400")
# Says that it has begun, and waits.
WORKER = ("--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR; sleep ${SLEEP:-0.1}; exit ${CODE:-0}")
SLEEPER = ("--", "sh", "-c", "echo $RANK > began-$RANK; exec sleep 300")


@pytest.fixture
def hosts(tmp_path):
    with Hosts(tmp_path) as hosts:
        yield hosts


def both(hosts, *arguments, cwd, **options):
    """The same command on both hosts; returns what became of them."""
    started = [hosts.a.launch(*arguments, cwd=cwd, **options), hosts.b.launch(*arguments, cwd=cwd, **options)]
    return [finish(process) for process in started]


def wait_for(path, timeout=20):
    deadline = time.monotonic() + timeout
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not come within {timeout} s"
        time.sleep(0.02)


def sleepers(hosts, cwd):
    """Launchers on both hosts whose workers sleep until they are stopped."""
    started = [host.launch(*ENDPOINT, *SLEEPER, cwd=cwd) for host in (hosts.a, hosts.b)]
    for rank in (0, 1):
        wait_for(cwd / f"began-{rank}")
    return started


def assert_nothing_left(hosts):
    deadline = time.monotonic() + 5
    while hosts.a.leftovers() or hosts.b.leftovers():
        assert time.monotonic() < deadline, (hosts.a.leftovers(), hosts.b.leftovers())
        time.sleep(0.05)


# --- meeting ----------------------------------------------------------------------------------------------


def test_two_hosts_train_as_one_process_does(hosts, tmp_path):
    config = config_with(training__micro_batch_size=1, training__global_batch_size=4)
    (tmp_path / "one").mkdir()
    train(tmp_path / "one", config)
    write(tmp_path, config)
    for done in both(hosts, *ENDPOINT, "--nproc", "2", "config.json", cwd=tmp_path):
        assert done.returncode == 0, done.stderr
    assert losses(tmp_path) == pytest.approx(losses(tmp_path / "one"), rel=1e-5)


def test_node_ranks_decide_the_order_of_the_ranks(hosts, tmp_path):
    b = hosts.b.launch(*ENDPOINT, "--node-rank", "1", "--nproc", "2", *WORKER, cwd=tmp_path)
    a = hosts.a.launch(*ENDPOINT, "--node-rank", "0", "--nproc", "2", *WORKER, cwd=tmp_path)
    done_a, done_b = finish(a), finish(b)
    assert (done_a.returncode, done_b.returncode) == (0, 0), done_a.stderr + done_b.stderr
    assert "rank 0 of 4 at host-a" in done_a.stdout and "rank 1 of 4 at host-a" in done_a.stdout
    assert "rank 2 of 4 at host-a" in done_b.stdout and "rank 3 of 4 at host-a" in done_b.stdout


def test_own_host_names_need_not_resolve(hosts, tmp_path):
    arguments = ("--nnodes", "2", "--rdzv-endpoint", "10.55.0.1:29400", *WORKER)
    for done in both(hosts, *arguments, cwd=tmp_path, host_name="bogus-name-of-no-host"):
        assert done.returncode == 0, done.stderr
        assert "at 10.55.0.1" in done.stdout


def test_training_does_not_need_own_host_names_to_resolve(hosts, tmp_path):
    write(tmp_path, config_with(training__micro_batch_size=1))
    arguments = ("--nnodes", "2", "--rdzv-endpoint", "10.55.0.1:29400", "config.json")
    for done in both(hosts, *arguments, cwd=tmp_path, host_name="bogus-name-of-no-host"):
        assert done.returncode == 0, done.stderr
    assert len(losses(tmp_path)) == 20


def test_the_second_host_may_start_first(hosts, tmp_path):
    b = hosts.b.launch(*ENDPOINT, *WORKER, cwd=tmp_path)
    time.sleep(1.5)
    a = hosts.a.launch(*ENDPOINT, *WORKER, cwd=tmp_path)
    done = finish(b)
    assert (finish(a).returncode, done.returncode) == (0, 0), done.stderr
    assert "no launcher answers at host-a:29400 yet (Connection refused)" in done.stderr


def free_port():
    with socket.socket() as free:
        free.bind(("", 0))
        return free.getsockname()[1]


SLOW_TO_SAVE = """
import signal, sys, time
def save(*_):
    print("stopping", flush=True)
    time.sleep(1)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(100)
"""


@pytest.mark.parametrize("pause", [0, 0.02, 0.1, 0.3])
def test_a_stop_of_both_launchers_ends_with_the_ranks_checkpoint(tmp_path, pause):
    """As scancel, or a script that stops every host, sends it."""
    arguments = [TRAINCTL, "launch", "--nnodes", "2", "--nproc", "2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
                 "--", sys.executable, "-c", SLOW_TO_SAVE]
    started = [subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(2)]
    for process in started:
        for _ in range(2):
            assert "ready" in process.stdout.readline()
    for process in started:
        process.send_signal(signal.SIGTERM)
        time.sleep(pause)
    done = [finish(process) for process in started]
    assert [each.returncode for each in done] == [75, 75], done[0].stderr + done[1].stderr
    assert "killed" not in done[0].stderr + done[1].stderr


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "[::1]"])
def test_two_nodes_over_loopback(tmp_path, address):
    port = free_port()
    arguments = [TRAINCTL, "launch", "--nnodes", "2", "--rdzv-endpoint", f"{address}:{port}", *WORKER]
    started = [subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
               for _ in range(2)]
    done = [finish(process) for process in started]
    assert [each.returncode for each in done] == [0, 0], done[0].stderr + done[1].stderr
    assert "rank 0 of 2" in done[0].stdout + done[1].stdout and "rank 1 of 2" in done[0].stdout + done[1].stdout


# --- what keeps them from meeting ----------------------------------------------------------------------------


def test_a_name_that_does_not_resolve_is_named_in_seconds(hosts, tmp_path):
    began = time.monotonic()
    for done in both(hosts, "--nnodes", "2", "--rdzv-endpoint", "hostt-a:29400", *WORKER, cwd=tmp_path):
        assert done.returncode == 3
        assert "'hostt-a'" in done.stderr and "cannot be resolved" in done.stderr
    assert time.monotonic() - began < 15


def test_a_missing_endpoint_is_refused_at_once(hosts, tmp_path):
    for done in both(hosts, "--nnodes", "2", *WORKER, cwd=tmp_path):
        assert done.returncode == 2
        assert "--rdzv-endpoint" in done.stderr


def test_different_configs_are_refused_on_both_hosts(hosts, tmp_path):
    write(tmp_path, config_with(training__micro_batch_size=1), name="a.json")
    write(tmp_path, config_with(training__micro_batch_size=1, run__seed=2), name="b.json")
    a = hosts.a.launch(*ENDPOINT, "a.json", cwd=tmp_path)
    b = hosts.b.launch(*ENDPOINT, "b.json", cwd=tmp_path)
    for done in (finish(a), finish(b)):
        assert done.returncode == 2
        assert "do not agree on config" in done.stderr
        assert "on host-a" in done.stderr and "on host-b" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_different_node_counts_are_refused_on_both_hosts(hosts, tmp_path):
    a = hosts.a.launch(*ENDPOINT, *WORKER, cwd=tmp_path)
    b = hosts.b.launch("--nnodes", "3", "--rdzv-endpoint", "host-a:29400", *WORKER, cwd=tmp_path)
    for done in (finish(a), finish(b)):
        assert done.returncode == 2
        assert "2 on host-a" in done.stderr and "3 on host-b" in done.stderr


def test_another_runs_launcher_is_refused_and_disturbs_nothing(hosts, tmp_path):
    a = hosts.a.launch(*ENDPOINT, "--rdzv-id", "mine", *WORKER, cwd=tmp_path)
    stranger = finish(hosts.b.launch(*ENDPOINT, "--rdzv-id", "other", *WORKER, cwd=tmp_path))
    assert stranger.returncode == 2 and "--rdzv-id" in stranger.stderr
    b = hosts.b.launch(*ENDPOINT, "--rdzv-id", "mine", *WORKER, cwd=tmp_path)
    assert (finish(a).returncode, finish(b).returncode) == (0, 0)


def test_the_time_out_says_who_is_missing(hosts, tmp_path):
    done = finish(hosts.a.launch("--nnodes", "3", "--node-rank", "0", "--rdzv-endpoint", "host-a:29400",
                                 "--join-timeout", "2", *WORKER, cwd=tmp_path))
    assert done.returncode == 3
    assert "missing: node 1, node 2" in done.stderr and "node 0 (host-a)" in done.stderr
    done = finish(hosts.b.launch(*ENDPOINT, "--node-rank", "1", "--join-timeout", "2", *WORKER, cwd=tmp_path))
    assert done.returncode == 3
    assert "host-a:29400" in done.stderr and "Connection refused" in done.stderr


# --- what happens while they run -------------------------------------------------------------------------------


def test_a_failing_rank_is_the_cause_on_both_hosts(hosts, tmp_path):
    program = ("--", "sh", "-c", "test $RANK = 0 || { echo disk broken >&2; exit 9; }; exec sleep 300")
    began = time.monotonic()
    for done in both(hosts, *ENDPOINT, *program, cwd=tmp_path):
        assert done.returncode == 9
        # Which host becomes node 0 is fixed by the endpoint.
        assert "rank 1 on host-b" in done.stderr and "disk broken" in done.stderr
    assert time.monotonic() - began < 10
    assert_nothing_left(hosts)


def test_a_killed_rank_is_the_cause_on_both_hosts(hosts, tmp_path):
    program = ("--", "sh", "-c", "test $RANK = 0 || kill -9 $$; exec sleep 300")
    for done in both(hosts, *ENDPOINT, *program, cwd=tmp_path):
        assert done.returncode == 128 + 9
        assert "rank 1 on host-b" in done.stderr
    assert_nothing_left(hosts)


def test_restarts_are_agreed(hosts, tmp_path):
    program = ("--", "sh", "-c", "echo attempt $TORCHELASTIC_RESTART_COUNT rank $RANK; "
               "test $RANK = 0 -o $TORCHELASTIC_RESTART_COUNT = 1 || { sleep 1; exit 9; }; test $RANK = 1 || exec sleep 2")
    done_a, done_b = both(hosts, *ENDPOINT, "--max-restarts", "1", *program, cwd=tmp_path)
    assert (done_a.returncode, done_b.returncode) == (0, 0), done_a.stderr + done_b.stderr
    for attempt in (0, 1):
        assert f"attempt {attempt} rank 0" in done_a.stdout and f"attempt {attempt} rank 1" in done_b.stdout


def test_a_stop_signal_on_one_host_stops_both(hosts, tmp_path):
    a, b = sleepers(hosts, tmp_path)
    # The launcher itself: `ip netns exec` and unshare have become it by exec.
    b.send_signal(signal.SIGTERM)
    assert finish(b).returncode == 128 + signal.SIGTERM
    assert finish(a).returncode == 128 + signal.SIGTERM
    assert_nothing_left(hosts)


@pytest.mark.parametrize("which, other", [("a", "host-a"), ("b", "host-b")])
def test_a_killed_launcher_is_noticed_at_once(hosts, tmp_path, which, other):
    a, b = sleepers(hosts, tmp_path)
    victim, survivor = (a, b) if which == "a" else (b, a)
    began = time.monotonic()
    victim.kill()
    done = finish(survivor)
    assert time.monotonic() - began < 8
    assert done.returncode == 3
    assert "lost" in done.stderr and other in done.stderr and "connection was closed" in done.stderr
    finish(victim)
    assert_nothing_left(hosts)


def test_a_link_taken_down_ends_both_and_names_the_other_host(hosts, tmp_path):
    a, b = sleepers(hosts, tmp_path)
    began = time.monotonic()
    hosts.b.unplug()
    done_a, done_b = finish(a), finish(b)
    assert time.monotonic() - began < 25
    assert (done_a.returncode, done_b.returncode) == (3, 3)
    assert "lost node 1 (host-b at 10.55.0.2)" in done_a.stderr and "nothing was heard of it" in done_a.stderr
    assert "host-a" in done_b.stderr and "nothing was heard of it" in done_b.stderr
    assert "last heard of at" in done_a.stderr and "last heard of at" in done_b.stderr
    assert_nothing_left(hosts)


def test_a_host_that_finishes_early_waits_for_the_other(hosts, tmp_path):
    program = ("--", "sh", "-c", "test $RANK = 0 || sleep 2")
    began = time.monotonic()
    done_a, done_b = both(hosts, *ENDPOINT, *program, cwd=tmp_path)
    assert (done_a.returncode, done_b.returncode) == (0, 0), done_a.stderr + done_b.stderr
    assert time.monotonic() - began > 2
