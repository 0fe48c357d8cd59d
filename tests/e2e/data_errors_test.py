"""Wrong data: one message that names what, where and the cure, exit code 4, and no half-made run."""

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from mini import BIN, TEXT, config_with, losses, metrics, train, trainctl, write  # noqa: E402


def refuse(folder, *parts, text=TEXT, **changes):
    """The run fails with code 4 and a message that holds all parts; nothing of it stays behind."""
    done = train(folder, config_with(**changes), text=text, expect=4)
    for part in parts:
        assert part in done.stderr, f"no '{part}' in: {done.stderr}"
    assert "terminate" not in done.stderr and "defect" not in done.stderr
    assert not (folder / "runs" / "mini" / "metrics.jsonl").exists()
    return done


def test_a_missing_file_is_named_with_the_nearest_name_and_the_working_directory(tmp_path):
    refuse(tmp_path, "data.train", "'date.txt' does not exist", str(tmp_path), "did you mean 'data.txt'?",
           data__train=["date.txt"])
    refuse(tmp_path, "data.validation", "'held.txt' does not exist", data__validation=["held.txt"])


def test_an_empty_glob_is_named(tmp_path):
    refuse(tmp_path, "data.train", "no file matches 'texts/**/*.txt'", str(tmp_path),
           data__train=["data.txt", "texts/**/*.txt"])


def test_a_folder_is_refused_with_the_pattern_to_write_instead(tmp_path):
    (tmp_path / "texts").mkdir()
    refuse(tmp_path, "'texts' is a folder", "texts/**/*.txt", data__train=["texts"])


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refuse(tmp_path, "'pipe' is no regular file", data__train=["pipe"])


def test_an_unreadable_file_is_named_with_the_reason(tmp_path):
    command = [str(BIN / "trainctl"), "run", "config.json"]
    if os.geteuid() == 0:  # root may read everything; run as somebody else
        command = ["setpriv", "--reuid", "65534", "--clear-groups", *command]
        probe = subprocess.run([*command[:-2], "--version"], capture_output=True)
        if probe.returncode != 0:
            pytest.skip("another user cannot reach the program here")
    # Outside of pytest's folders, which only this user may enter.
    folder = pathlib.Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    try:
        write(folder, config_with())
        folder.chmod(0o777)
        (folder / "data.txt").chmod(0)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 4, done.stderr
        assert "cannot read 'data.txt': Permission denied" in done.stderr
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_empty_files_are_refused(tmp_path):
    refuse(tmp_path, "'data.txt' is empty", text="")
    refuse(tmp_path, "all 1 matching files are empty", text="", data__train=["*.txt"])


@pytest.mark.parametrize("content, line, offset, byte, cure", [
    (TEXT.encode() + b"\r\ncaf\xe9\n", 2, len(TEXT) + 5, "0xE9", "iconv -f ISO-8859-1 -t UTF-8 'data.txt'"),
    (b"one\rtwo\r\n\xed\xa0\x80" + TEXT.encode(), 3, 9, "0xED", "iconv"),
    (TEXT.encode("utf-16"), 1, 0, "0xFF", "iconv -f UTF-16 -t UTF-8 'data.txt'"),
    (b"\x1f\x8b\x08\x00" + TEXT.encode(), 1, 1, "0x8B", "gunzip"),
])
def test_invalid_utf8_is_refused_with_line_byte_offset_and_cure(tmp_path, content, line, offset, byte, cure):
    (tmp_path / "data.txt").write_bytes(content)
    refuse(tmp_path, f"data.txt:{line}: byte offset {offset} ({byte}) is not valid UTF-8", cure, text=None)


def test_a_text_shorter_than_a_window_names_both_numbers_and_the_cure(tmp_path):
    refuse(tmp_path, "the text has 6 tokens", "data.seq_len 8", "lower data.seq_len to at most 5", text="short")
    refuse(tmp_path, "leaves nothing for data.validation_fraction", "lower data.seq_len", text="eight by")


def test_byte_order_mark_and_line_ends_do_not_change_the_training(tmp_path):
    plain, dressed = tmp_path / "plain", tmp_path / "dressed"
    plain.mkdir()
    dressed.mkdir()
    lines = [TEXT[i:i + 30] for i in range(0, len(TEXT), 30)]
    (plain / "data.txt").write_bytes("\n".join(lines).encode())
    (dressed / "data.txt").write_bytes(b"\xef\xbb\xbf" + ("\r\n".join(lines[:4]) + "\r" + "\r".join(lines[4:])).encode())
    train(plain, config_with(), text=None)
    done = train(dressed, config_with(), text=None)
    assert losses(dressed) == losses(plain)
    said = done.stdout + done.stderr
    crlf, cr = 3, len(lines) - 4
    assert f"{crlf} CRLF line ends became LF, {cr} CR line ends became LF, 1 byte order marks were dropped" in said
    assert said.count("CRLF line ends") == 1


def test_globs_train_on_all_files_in_the_same_order_everywhere(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, names in ((one, "abc"), (two, "cba")):  # made in another order
        (folder / "texts" / "deep").mkdir(parents=True)
        for name in names:
            (folder / "texts" / "deep" / f"{name}.txt").write_text(name * 40 + TEXT)
    write(one, config_with(data__train=["texts/**/*.txt"]), text=None)
    write(two, config_with(data__train=["texts/deep/a.txt", "texts/**/*.txt", "texts/*/c.txt"]), text=None)
    for folder in (one, two):
        done = trainctl("run", "config.json", cwd=folder)
        assert done.returncode == 0, done.stderr
    assert losses(one) == losses(two)


def test_worker_threads_do_not_change_the_losses(tmp_path):
    curves = []
    for workers in (0, 1, 3):
        folder = tmp_path / str(workers)
        folder.mkdir()
        train(folder, config_with(data__workers=workers, training__max_steps=40))
        curves.append(losses(folder))
    assert curves[0] == curves[1] == curves[2] and len(curves[0]) == 40


def test_the_shorter_window_of_an_epoch_is_a_step_of_its_own(tmp_path):
    text = "x" * 43  # 44 tokens, 43 targets: five windows of 8 and one of 3
    train(tmp_path, config_with(data__validation_fraction=0, training__max_steps=8, training__micro_batch_size=1,
                                training__global_batch_size=2), text=text)
    tokens = [line["tokens"] for line in metrics(tmp_path) if "loss" in line]
    seen = [after - before for before, after in zip([0] + tokens, tokens)]
    assert seen == [16, 16, 8, 3, 16, 16, 8, 3]
