"""What users' machines do to a run: closed descriptors, limits, full disks, damaged files, diverged models."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import TRAINCTL, config_with, metrics, param_hash, steps, train, trainctl, write  # noqa: E402


def shell(command, folder, timeout=60):
    return subprocess.run(["bash", "-c", command.replace("TRAINCTL", f"'{TRAINCTL}'")], cwd=folder, text=True,
                          capture_output=True, timeout=timeout)


def clear_message(done):
    """One message for a person, none for a debugger."""
    for word in ("defect", "c10", "json.exception", "what():", "filesystem error", "std::", "enforce fail"):
        assert word not in done.stderr + done.stdout, done.stderr
    assert done.stderr.count("trainctl: error:") == 1, done.stderr
    return done.stderr


def test_closed_descriptors_do_not_send_the_screen_into_files(tmp_path):
    write(tmp_path, config_with())
    for number, closed in enumerate(("<&- >&-", "<&- >&- 2>&-", ">&-", "2>&-")):
        done = shell(f"TRAINCTL run config.json --set run.name=closed{number} {closed}", tmp_path)
        assert done.returncode == 0
        assert [line["step"] for line in steps(tmp_path, f"closed{number}")] == list(range(1, 21))


@pytest.mark.parametrize("blocks", [1, 10, 40])
def test_a_file_size_limit_is_named_and_leaves_nothing_torn(tmp_path, blocks):
    write(tmp_path, config_with(checkpoint__interval=1))
    done = shell(f"ulimit -f {blocks}; TRAINCTL run config.json", tmp_path)
    assert done.returncode in (2, 5), (done.returncode, done.stderr)
    assert "File too large" in done.stderr
    run = tmp_path / "runs" / "mini"
    assert not (run / ".lock").exists()
    assert not list(run.rglob("*.tmp*")) and not list(run.rglob("*partial*"))


CAN_MOUNT = subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not CAN_MOUNT, reason="no mount namespace can be made here (needs root, and no chroot)")
@pytest.mark.parametrize("size", ["24k", "100k"])
def test_a_disk_too_small_for_a_checkpoint_is_refused_before_the_first_step(tmp_path, size):
    write(tmp_path, config_with(run__output_dir="small"))
    (tmp_path / "small").mkdir()
    done = shell(f"unshare -m bash -c 'mount -t tmpfs -o size={size} none small && exec \"$0\" run config.json' "
                 "TRAINCTL", tmp_path)
    assert done.returncode == 2
    message = clear_message(done)
    assert "free" in message and "run.output_dir" in message


def test_a_model_larger_than_the_memory_is_refused_with_both_sizes(tmp_path):
    done = train(tmp_path, config_with(model__vocab_size=2**31 - 1, model__d_model=2**14), expect=2)
    message = clear_message(done)
    assert "TiB" in message and "model.vocab_size" in message
    assert not (tmp_path / "runs").exists()


def test_far_too_many_threads_are_refused(tmp_path):
    message = clear_message(train(tmp_path, config_with(backend__threads=4096), expect=2))
    assert "backend.threads" in message and "4096" in message


DIVERGED = dict(optimizer__learning_rate=1e30, lr_scheduler__type="constant", lr_scheduler__min_learning_rate=None,
                lr_scheduler__warmup_steps=None)


def test_a_run_that_ends_without_a_finite_loss_is_a_failed_one(tmp_path):
    done = train(tmp_path, config_with(training__max_steps=6, validation__prompts=["a"], validation__sample_tokens=3,
                                       **DIVERGED), expect=1)
    assert "not a finite number" in clear_message(done)
    assert "no sample" in done.stderr
    generated = trainctl("generate", "runs/mini", "--prompt", "a", cwd=tmp_path)
    assert generated.returncode == 1
    assert "not finite" in clear_message(generated)


@pytest.mark.parametrize("arguments", [
    ["--temperature", "nan"], ["--seed", "99999999999999999999"], ["--seed", "-1"], ["--top-k", "1.5"],
    ["--max-new-tokens", "99999999999999999999"]])
def test_generate_refuses_numbers_it_cannot_use(tmp_path, arguments):
    done = trainctl("generate", "runs/mini", "--prompt", "a", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert arguments[0] in clear_message(done)


def test_a_temperature_next_to_nothing_takes_the_likeliest_token(tmp_path):
    train(tmp_path, config_with(validation__temperature=1e-300, validation__prompts=["The "]))
    answers = {trainctl("generate", "runs/mini", "--prompt", "The ", "--temperature", t, cwd=tmp_path).stdout
               for t in ("0", "1e-300", "1e-30")}
    assert len(answers) == 1


@pytest.mark.parametrize("arguments", [["run", "config.json", "--set", b"run.name=\xff"],
                                       ["generate", "runs/mini", "--prompt", b"\xff\xfe"], [b"\xff"]])
def test_arguments_that_are_no_utf8_are_refused(tmp_path, arguments):
    write(tmp_path, config_with())
    done = subprocess.run([os.fsencode(str(TRAINCTL)), *[os.fsencode(a) for a in arguments]], cwd=tmp_path,
                          capture_output=True, timeout=60)
    assert done.returncode == 2
    assert b"UTF-8" in done.stderr and b"json.exception" not in done.stderr


@pytest.mark.parametrize("folder", ["x" * 5000, "/proc/1/none", "/dev/null/runs", "data.txt/runs"])
def test_output_folders_that_cannot_be_are_refused_by_name(tmp_path, folder):
    message = clear_message(train(tmp_path, config_with(run__output_dir=folder), expect=2))
    assert folder[:50] in message


def test_a_device_is_no_config(tmp_path):
    for command in (["config", "validate", "/dev/zero"], ["run", "/dev/zero"]):
        done = trainctl(*command, cwd=tmp_path)
        assert done.returncode == 2
        assert "/dev/zero" in clear_message(done)


def test_broken_lines_in_the_metrics_cost_only_themselves(tmp_path):
    config = config_with(training__max_steps=30, lr_scheduler__type="constant", lr_scheduler__min_learning_rate=None)
    train(tmp_path, config)
    path = tmp_path / "runs" / "mini" / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:5], "garbage", "\0" * 40, *lines[5:]]) + "\n")
    config["training"]["max_steps"] = 40
    done = train(tmp_path, config)
    assert "2 broken lines" in done.stderr
    assert [line["step"] for line in steps(tmp_path)] == list(range(1, 41))
    assert metrics(tmp_path)


def test_another_window_length_on_resume_is_blamed_on_the_config(tmp_path):
    train(tmp_path, config_with())
    done = train(tmp_path, config_with(data__seq_len=4, training__max_steps=30), expect=5)
    assert "data.seq_len: 8" in clear_message(done)


def test_checkpoints_are_found_by_run_by_folder_and_by_step(tmp_path):
    gold = param_hash(train(tmp_path, config_with(), "--print-param-hash"))
    for number, source in enumerate(("runs/mini", "runs/mini/checkpoints", "runs/mini/checkpoints/step-20/")):
        name = f"again{number}"
        done = train(tmp_path, config_with(run__name=name), "--resume", source, "--print-param-hash")
        assert param_hash(done) == gold
    (tmp_path / "empty").mkdir()
    done = trainctl("generate", "empty", "--prompt", "a", cwd=tmp_path)
    assert done.returncode == 5
    assert "no complete checkpoint" in clear_message(done)


def test_a_hang_up_saves_the_run_unless_nohup_asked_otherwise(tmp_path):
    write(tmp_path, config_with(training__max_steps=10**6, logging__interval=1))
    wait = "until [ -s runs/mini/metrics.jsonl ]; do sleep 0.02; done"
    done = shell(f"TRAINCTL run config.json >/dev/null 2>&1 & {wait}; kill -HUP $!; wait $!", tmp_path)
    assert done.returncode == 75
    done = shell(f"rm -rf runs; (trap '' HUP; exec TRAINCTL run config.json --set training.max_steps=3000) "
                 f">/dev/null 2>&1 & {wait}; kill -HUP $!; wait $!", tmp_path)
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["manifest.json", "state.json", "COMPLETE", "model.safetensors"])
def test_a_fifo_in_a_checkpoint_is_not_waited_for(tmp_path, name):
    train(tmp_path, config_with(training__max_steps=20, checkpoint__interval=10))
    newest = tmp_path / "runs/mini/checkpoints/step-20" / name
    newest.unlink()
    os.mkfifo(newest)
    done = trainctl("run", "config.json", "--set", "training.max_steps=30", cwd=tmp_path, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "step-20" in done.stderr
