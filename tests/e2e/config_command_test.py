"""trainctl config: messages, exit codes, the schema, and the files made from the field tables."""

import json
import os
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

BIN = Path(os.environ["TRAINCTL_BIN"]) / "trainctl"
SOURCE = Path(os.environ["TRAINCTL_SOURCE"])
CONFIGS = sorted(p for p in (SOURCE / "configs").glob("*.json") if p.name != "trainctl.schema.json")

GOOD = {
    "model": {"d_model": 16, "n_layers": 1, "n_heads": 2, "max_seq_len": 8},
    "data": {"train": ["data.txt"], "seq_len": 8},
    "training": {"max_steps": 20, "micro_batch_size": 2},
}


def trainctl(*arguments, cwd=None, **environment):
    return subprocess.run([BIN, *map(str, arguments)], cwd=cwd, capture_output=True, text=True,
                          timeout=60, env={**os.environ, **environment})


def validate(tmp_path, content):
    path = tmp_path / "run.json"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return trainctl("config", "validate", "run.json", cwd=tmp_path)


def without_comments(text):
    """Strips // and /* */ outside strings, as the program allows them."""
    return re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda m: m.group(1) or "", text,
                  flags=re.S)


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(trainctl("config", "schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


# --- Cases I1 and E5 ----------------------------------------------------------------------------

@pytest.mark.parametrize("content, expected", [
    ('{\n "optimizer": {"learning_rte": 1}}', "run.json:2: optimizer.learning_rte: unknown key; did "
     "you mean optimizer.learning_rate?"),
    ('{"training": {\n"learning_rate": 1}}', "run.json:2: training.learning_rate: unknown key; did "
     "you mean optimizer.learning_rate?"),
    ('{"run": {"seed": 1,\n"seed": 2}}', "run.json:2: run.seed: given twice, the first time on "
     "line 1"),
    ('{"run": {},\n"run": {}}', "run.json:2: run: given twice"),
    ("", "run.json:1:1: the file holds no config"),
    ("\n\n", "the file holds no config"),
    ("[]", "a config is one JSON object"),
    ('{"run": {},}', "run.json:1:11: a comma before '}'"),
    ("{} x", "run.json:1:4: there is more text after the end"),
    (b'{"run": {"name": "\xff"}}', "run.json:1:19: byte 0xFF at offset 18 is not valid UTF-8"),
    (b"\xff\xfe{\x00}\x00", "UTF-16"),
])
def test_bad_file_is_refused_with_place_and_cure(tmp_path, content, expected):
    result = validate(tmp_path, content)
    assert result.returncode == 2
    assert result.stdout == ""
    assert expected in result.stderr
    assert result.stderr.startswith("trainctl: error: ")


def test_byte_order_mark_and_carriage_returns_are_fine(tmp_path):
    text = json.dumps(GOOD, indent=1)
    for content in (b"\xef\xbb\xbf" + text.encode(), text.replace("\n", "\r\n").encode(),
                    text.replace("\n", "\r").encode()):
        assert validate(tmp_path, content).returncode == 0


def test_all_problems_come_at_once(tmp_path):
    result = validate(tmp_path, {"model": {"n_heads": "2"}, "nonsense": 1,
                                 "data": {"format": "tokens"}, "parallel": {"strategy": "dp"}})
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert lines[0] == "trainctl: error: 5 problems in the config:"
    assert len(lines) == 6
    assert "write 2 without quotes" in result.stderr
    assert '"tokens" is not in this version' in result.stderr
    assert 'write "ddp"' in result.stderr


def test_several_files_are_all_checked(tmp_path):
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "b.json").write_text(json.dumps(GOOD))
    result = trainctl("config", "validate", "a.json", "b.json", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == "b.json: valid\n"


def test_set_is_checked_like_the_file(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(GOOD))
    result = trainctl("config", "validate", "run.json", "--set", "optimizer.learning_rte=1",
                      cwd=tmp_path)
    assert result.returncode == 2
    assert "did you mean optimizer.learning_rate?" in result.stderr
    assert trainctl("config", "validate", "run.json", "--set", 'data.train=["a", "b"]',
                    "--set", "run.name=x", cwd=tmp_path).returncode == 0


# --- Schema -------------------------------------------------------------------------------------

@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name)
def test_example_config_is_valid_and_names_the_schema(path, validator):
    document = json.loads(without_comments(path.read_text()))
    validator.validate(document)
    assert (path.parent / document["$schema"]).exists()
    result = trainctl("config", "validate", path)
    assert result.returncode == 0
    assert result.stderr == ""


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.name)
def test_resolved_example_config_is_valid_and_stays_the_same(path, validator, tmp_path):
    shown = trainctl("config", "show", path, "--json").stdout
    validator.validate(json.loads(shown))
    (tmp_path / "again.json").write_text(shown)
    assert trainctl("config", "show", tmp_path / "again.json", "--json").stdout == shown


@pytest.mark.parametrize("section, key, value", [
    ("model", "vocab_size", "257"), ("model", "vocab_size", 1), ("model", "d_model", 2.5),
    ("model", "dropout", 1), ("model", "type", "llama"), ("model", "nonsense", 1),
    ("model", "bias", "true"), ("run", "name", ""), ("run", "name", "a/b"), ("run", "name", ".."),
    ("run", "seed", -1), ("data", "train", "a.txt"), ("data", "train", [1]), ("data", "train", [""]),
    ("data", "validation_fraction", 1), ("training", "max_time", "5x"),
    ("training", "gradient_accumulation_steps", 0), ("optimizer", "betas", [0.9]),
    ("optimizer", "betas", [0.9, 1]), ("optimizer", "learning_rate", 0),
    ("optimizer", "no_decay", ["x"]), ("optimizer", "groups", [{"weight_decay": 0}]),
    ("optimizer", "groups", [{"params": "a", "x": 1}]), ("backend", "device", "gpu"),
    ("precision", "grad_scaler", {"enabled": "yes"}), ("checkpoint", "interval", "10"),
    ("checkpoint", "interval", -1), ("checkpoint", "keep_latest", 0), ("parallel", "strategy", "dp"),
    ("validation", "early_stopping", {"patience": 1.5}), ("logging", "interval", None),
])
def test_schema_and_program_refuse_the_same(tmp_path, validator, section, key, value):
    document = {**GOOD, section: {**GOOD.get(section, {}), key: value}}
    assert not validator.is_valid(document)
    result = validate(tmp_path, document)
    assert result.returncode == 2
    assert f"{section}.{key}" in result.stderr or f"{section}.groups" in result.stderr


@pytest.mark.parametrize("section, key, value", [
    ("model", "d_model", 16.0), ("training", "max_time", "1h30m"), ("training", "max_time", 5.5),
    ("checkpoint", "interval", "0.5s"), ("backend", "device", "cuda:12"),
    ("precision", "grad_scaler", {"enabled": False}), ("run", "name", "a.b c"),
    ("optimizer", "groups", [{"params": "*", "weight_decay": 0}]),
])
def test_schema_and_program_accept_the_same(tmp_path, validator, section, key, value):
    document = {**GOOD, section: {**GOOD.get(section, {}), key: value}}
    validator.validate(document)
    result = validate(tmp_path, document)
    assert result.returncode == 0, result.stderr


# --- What is made from the tables ---------------------------------------------------------------

def test_schema_file_is_up_to_date():
    made = trainctl("config", "schema").stdout
    assert (SOURCE / "configs/trainctl.schema.json").read_text() == made, \
        "run: trainctl config schema > configs/trainctl.schema.json"


def test_reference_is_up_to_date():
    made = trainctl("config", "docs").stdout
    assert (SOURCE / "docs/config.md").read_text() == made, \
        "run: trainctl config docs > docs/config.md"


def test_starter_is_commented_and_valid(tmp_path, validator):
    assert trainctl("config", "init", "new.json", cwd=tmp_path).returncode == 0
    text = (tmp_path / "new.json").read_text()
    assert text.count("//") > 30
    validator.validate(json.loads(without_comments(text)))
    assert trainctl("config", "validate", "new.json", cwd=tmp_path).returncode == 0


def test_starter_replaces_no_file(tmp_path):
    (tmp_path / "new.json").write_text("mine")
    result = trainctl("config", "init", "new.json", cwd=tmp_path)
    assert result.returncode == 2
    assert "there already" in result.stderr
    assert (tmp_path / "new.json").read_text() == "mine"
    assert trainctl("config", "init", "new.json", "--force", cwd=tmp_path).returncode == 0


def test_show_names_origins(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(GOOD, indent=1))
    shown = trainctl("config", "show", "run.json", "--set", "run.seed=9", cwd=tmp_path).stdout
    assert re.search(r'"seed": 9 +// --set', shown)
    assert re.search(r'"d_model": 16, +// run.json:3', shown)
    assert re.search(r'"d_ff": 64, +// derived', shown)
    assert re.search(r'"name": "run", +// default', shown)
