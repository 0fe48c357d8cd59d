"""Interchange of safetensors files with the Python library, both ways, byte for byte."""

import json
import os
import struct
import subprocess

import pytest
import safetensors
import torch
from safetensors.torch import load_file, save_file

TOOL = os.path.join(os.environ["TRAINCTL_BIN"], "safetensors_tool")

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32,
    torch.int64, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e8m0fnu,
]


def tool(*arguments, code=0):
    result = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    return result.stdout if code == 0 else result.stderr


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def random_tensor(dtype, shape):
    count = torch.Size(shape).numel()
    size = torch.empty(0, dtype=dtype).element_size()
    data = torch.randint(0, 2 if dtype == torch.bool else 256, (count * size,), dtype=torch.uint8)
    if dtype == torch.bool:
        return data.to(torch.bool).reshape(shape)
    return data.view(dtype).reshape(shape)


def tensors_of_every_kind():
    torch.manual_seed(1)
    out = {}
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        out[f"{name}.matrix"] = random_tensor(dtype, (3, 5))
        out[f"{name}.scalar"] = random_tensor(dtype, ())
        out[f"{name}.empty"] = random_tensor(dtype, (2, 0, 3))
    out["слой.вес ✓"] = torch.arange(4.0)
    out['quote " backslash \\ \n tab \t'] = torch.arange(2)
    return out


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert tensor.dtype == right[name].dtype and tensor.shape == right[name].shape, name
        assert raw(tensor) == raw(right[name]), name


def test_reads_what_python_wrote(tmp_path):
    tensors = tensors_of_every_kind()
    metadata = {"format": "pt", "ключ": "значение \"\n"}
    save_file(tensors, tmp_path / "a.safetensors", metadata)
    dump = json.loads(tool("dump", tmp_path / "a.safetensors"))
    assert dump["metadata"] == metadata
    assert dump["tensors"].keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert dump["tensors"][name]["shape"] == list(tensor.shape)
        assert bytes.fromhex(dump["tensors"][name]["bytes"]) == raw(tensor), name


def test_python_reads_what_we_wrote(tmp_path):
    tensors = tensors_of_every_kind()
    save_file(tensors, tmp_path / "a.safetensors", {"format": "pt"})
    tool("rewrite", tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert_same(tensors, load_file(tmp_path / "b.safetensors"))
    with safetensors.safe_open(tmp_path / "b.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_files_are_equal_byte_for_byte(tmp_path):
    for metadata in ({"format": "pt"}, None):
        save_file(tensors_of_every_kind(), tmp_path / "a.safetensors", metadata)
        tool("rewrite", tmp_path / "a.safetensors", tmp_path / "b.safetensors")
        ours = (tmp_path / "b.safetensors").read_bytes()
        assert ours == (tmp_path / "a.safetensors").read_bytes()


def test_a_file_without_tensors(tmp_path):
    save_file({}, tmp_path / "a.safetensors", {"a": "b"})
    assert json.loads(tool("dump", tmp_path / "a.safetensors"))["metadata"] == {"a": "b"}
    tool("rewrite", tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    assert load_file(tmp_path / "b.safetensors") == {}


def test_a_file_beyond_four_gigabytes(tmp_path):
    """Sparse: a tensor of 5 GiB, and a small one that begins beyond it."""
    large, path = 5 * 2**30, tmp_path / "large.safetensors"
    # The small one's type is aligned less, so that the Python library, too, expects it last.
    small = torch.arange(16, dtype=torch.uint8)
    text = header({"large": entry("F32", (large // 4096, 1024), 0, large),
                   "small": entry("U8", (4, 4), large, large + 16)})
    with open(path, "wb") as file:
        file.write(text)
        file.seek(len(text) + large)
        file.write(raw(small))
    assert path.stat().st_size > 2**32 and path.stat().st_blocks * 512 < 2**20
    assert tool("check", path) == "2 tensors\n"
    ours = json.loads(tool("dump", path, "small"))["tensors"]["small"]
    assert ours["shape"] == [4, 4] and bytes.fromhex(ours["bytes"]) == raw(small)
    with safetensors.safe_open(path, "pt") as file:
        assert torch.equal(file.get_tensor("small"), small.reshape(4, 4))
        assert file.get_slice("large").get_shape() == [large // 4096, 1024]
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 2**32)  # the same in 32 bits
    tool("check", path, code=5)


def entry(dtype="U8", shape=(4,), begin=0, end=4):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def header(content):
    text = (content if isinstance(content, str) else json.dumps(content)).encode()
    return struct.pack("<Q", len(text)) + text


# Case G3. The library takes a repeated name (its last entry counts), the reader refuses it.
ACCEPTED_BY_PYTHON = {"duplicate"}
HOSTILE = {
    "length 2^64-1": struct.pack("<Q", 2**64 - 1) + b"{}",
    "length 2^40": struct.pack("<Q", 2**40) + b"{}",
    "length 0": struct.pack("<Q", 0) + b"{}",
    "length past the end": struct.pack("<Q", 3) + b"{}",
    "short": b"\x02\x00\x00",
    "reversed": header({"a": entry(begin=4, end=0)}) + b"1234",
    "overlap": header({"a": entry(), "b": entry(begin=2, end=6)}) + b"123456",
    "past the end": header({"a": entry(begin=0, end=5, shape=(5,))}) + b"1234",
    "hole": header({"a": entry(begin=1, end=5)}) + b"12345",
    "trailing data": header({"a": entry()}) + b"12345",
    "shape too large": header({"a": entry(shape=(5,))}) + b"1234",
    "wrapped product": header({"a": entry("F32", (2**32, 2**32, 1), 0, 4)}) + b"1234",
    "unknown type": header({"a": entry("X8")}) + b"1234",
    "duplicate": header('{"a":%s,"a":%s}' % ((json.dumps(entry()),) * 2)) + b"1234",
    "bad JSON": header('{"a":') + b"1234",
    "list": header("[]"),
    "negative": header({"a": entry(shape=(-4,))}) + b"1234",
    "float": header({"a": entry(shape=(4.0,))}) + b"1234",
    "deep": header('{"a":' + "[" * 10000),
    "bad UTF-8": struct.pack("<Q", 6) + b'{"\xff"}',
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused(tmp_path, kind):
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(HOSTILE[kind])
    if kind not in ACCEPTED_BY_PYTHON:
        with pytest.raises(Exception):
            load_file(path)
    message = tool("check", path, code=5)
    assert str(path) in message and len(message) < 1000 and message.count("\n") == 1


def test_every_cut_of_a_file_is_refused(tmp_path):
    whole = header({"a": entry()}) + b"1234"
    path = tmp_path / "cut.safetensors"
    for size in (0, 7, 8, 9, len(whole) - 5, len(whole) - 1):
        path.write_bytes(whole[:size])
        tool("check", path, code=5)
    path.write_bytes(whole)
    assert tool("check", path) == "1 tensors\n"
