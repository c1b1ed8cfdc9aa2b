#!/usr/bin/env bash
# tools/tokenize: which files of tokens become which shards, what it takes of a tokenizer.json, and
# that a long text becomes the same tokens as in one go. The package tokenizers is played by a small
# one that cuts texts at spaces and before 's, so that a cut elsewhere shows.
set -euo pipefail

tokenize=$PWD/tools/tokenize
cd "$TEST_TMPDIR"
mkdir -p package
cat >package/tokenizers.py <<'END'
import json
import re


class Encoding:
    def __init__(self, ids):
        self.ids = ids


class Tokenizer:
    """A token is a word with the space before it: its number is the sum of its letters."""

    def __init__(self, content):
        for where, key in (content, "truncation"), (content, "padding"), (content["model"], "dropout"):
            assert where.get(key) is None, key
        self.added = {token["content"]: token["id"] for token in content.get("added_tokens", [])}

    @staticmethod
    def from_str(text):
        return Tokenizer(json.loads(text))

    def get_vocab(self, with_added_tokens):
        return {"last": 9999}

    def token_to_id(self, text):
        return self.added.get(text)

    def encode(self, text, add_special_tokens):
        assert not add_special_tokens
        assert len(text) < 400_000, "a piece is too long"
        return Encoding([sum(map(ord, word)) % 9000 for word in re.findall(r"'s| ?\w+| ?[^\s\w]+|\s+(?!\S)|\s+", text)])
END
export PYTHONPATH=$PWD/package PYTHONDONTWRITEBYTECODE=1

# expect STATUS TEXT ARGUMENTS...: how tools/tokenize ends, and what it says.
expect() {
  local status=0 out
  out=$(python3 "$tokenize" "${@:3}" 2>&1) || status=$?
  if ((status != $1)) || [[ $out != *"$2"* || $out == *Traceback* ]]; then
    echo "tools/tokenize ${*:3}"
    echo "expected status $1 and: $2"
    echo "seen     status $status and: $out"
    exit 1
  fi
}

python3 - <<'END'
import json
import random
import struct

random.seed(42)


def npy(name, kind, code, values, shape=None):
    header = str({"descr": kind, "fortran_order": False, "shape": shape or (len(values),)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    with open(name, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header)
        file.write(struct.pack(f"<{len(values)}{code}", *values))


tokens = [random.randrange(65536) for _ in range(300_000)]
tokens[7] = 65535
json.dump(tokens, open("tokens.json", "w"))
for kind, code in ("<u2", "H"), ("<i4", "i"), ("<i8", "q"):
    npy(f"{code}.npy", kind, code, tokens)
with open("train.bin", "wb") as file:
    file.write(struct.pack("<200000H", *tokens[:200_000]))
with open("val.bin", "wb") as file:
    file.write(struct.pack("<100000H", *tokens[200_000:]))
npy("large.npy", "<i4", "i", [1, 65536])
npy("negative.npy", "<i4", "i", [1, -1])
npy("float.npy", "<f4", "f", [1, 2])
npy("big.npy", ">u2", "H", [1, 2])
npy("square.npy", "<u2", "H", [1, 2, 3, 4], (2, 2))
npy("long.npy", "<u2", "H", [1, 2], (3,))
npy("none.npy", "<u2", "H", [])
open("header.npy", "wb").write(b"\x93NUMPY\1\0\x10\0{'descr': __impo")
open("cut.npy", "wb").write(b"\x93NUMPY\1")
open("odd.bin", "wb").write(b"123")
open("empty.bin", "wb").write(b"")
open("gz.bin", "wb").write(b"\x1f\x8b\x08\0")
open("megatron.bin", "wb").write(b"1234")
open("megatron.idx", "wb").write(b"MMIDIDX\0\0")

words = ["In", "the", "beginning", "God,", "caf\u00e9", "\u2603", *["it's"] * 9, "x_1", "\U0001f600\U0001f600"]
spaces = [*["  "] * 9, " ", " ", "\n", "\n\n", "\t"]
text = "".join(random.choice(words) + random.choice(spaces) for _ in range(90_000))
open("text", "w", newline="").write(text)
open("latin", "wb").write(b"a" * 200_000 + b"\xe9" + b"a" * 9)
open("cut", "wb").write(b"a" * 200_000 + b"\xe2\x98")
plain = {"model": {}, "added_tokens": [{"content": "<|endoftext|>", "id": 9001}, {"content": "</s>", "id": 9002}]}
json.dump(plain, open("tokenizer.json", "w"))
json.dump(plain | {"truncation": {"max_length": 512}, "padding": {"strategy": "Fixed"}, "model": {"dropout": 0.5}},
          open("saved.json", "w"))
json.dump({"model": {}}, open("endless.json", "w"))
END

# Files of tokens.
expect 0 "300000 tokens up to 65535; the lessons take --vocab 65536" --convert --out h/a H.npy
expect 0 "300000 tokens" --convert --out i/a i.npy
expect 0 "300000 tokens" --convert --out q/a q.npy
expect 0 "300000 tokens" --convert --out two/a train.bin val.bin
expect 0 "many/a_000002.bin: 60000 tokens" --convert --out many/a --shard-tokens 120000 train.bin val.bin
for bad in large:65536 negative:-1; do
  expect 2 "${bad%:*}.npy: has a token ${bad#*:}; a shard holds uint16" --convert --out bad/a "${bad%:*}.npy"
done
expect 2 "float.npy: has <f4 of shape (2,), expected integers" --convert --out bad/a float.npy
expect 2 "big.npy: has >u2 of shape" --convert --out bad/a big.npy
expect 2 "square.npy: has <u2 of shape (2, 2), expected integers of one" --convert --out bad/a square.npy
expect 2 "long.npy: has 132 bytes, expected 134" --convert --out bad/a long.npy
expect 2 "none.npy: has 128 bytes, expected tokens" --convert --out bad/a none.npy
for bad in header cut; do
  expect 2 "$bad.npy: its header is not that of a NumPy array" --convert --out bad/a $bad.npy
done
expect 2 "odd.bin: has 3 bytes, expected 2" --convert --out bad/a odd.bin
expect 2 "empty.bin: has 0 bytes, expected tokens" --convert --out bad/a empty.bin
expect 2 "gz.bin: is an archive or compressed" --convert --out bad/a gz.bin
expect 2 "megatron.bin: has an index beside it" --convert --out bad/a megatron.bin
expect 2 "h/a_000000.bin: is a token shard already" --convert --out bad/a h/a_000000.bin
expect 2 "text: expected a NumPy array" --convert --out bad/a text
expect 2 "nowhere.bin: No such file" --convert --out bad/a nowhere.bin
expect 2 "h/a_000000.bin is there already" --convert --out h/a H.npy
# Names may end with a slash, and have signs that a shell expands.
for prefix in slash/ 'book[1]'; do
  expect 0 "${prefix}_000000.bin: 300000 tokens" --convert --out "$prefix" H.npy
  expect 2 "${prefix}_000000.bin is there already" --convert --out "$prefix" H.npy
done
expect 2 "--convert: expected --out, and no --tokenizer" --convert --out bad/a --tokenizer tokenizer.json H.npy

# Texts.
expect 0 "--vocab 10000" --tokenizer tokenizer.json --out texts/a text text
expect 0 "saved.json: ignoring its saved truncation setting" \
  --tokenizer saved.json --out saved/a text text
expect 0 "no token is known to end a text" --tokenizer endless.json --out endless/a text
echo '{"eos_token": {"content": "</s>"}}' >tokenizer_config.json
expect 0 "" --tokenizer tokenizer.json --out config/a text text
echo '{"eos_token": "<eos>"}' >tokenizer_config.json
expect 2 '"eos_token" is "<eos>", which is no token of tokenizer.json' \
  --tokenizer tokenizer.json --out bad/a text
rm tokenizer_config.json
expect 2 "latin: byte 200000 is not UTF-8" --tokenizer tokenizer.json --out bad/a latin
expect 2 "cut: byte 200000 is not UTF-8" --tokenizer tokenizer.json --out bad/a cut
# What fails after some shards leaves none of them.
expect 2 "latin: byte 200000 is not UTF-8" --tokenizer tokenizer.json --out bad/a --shard-tokens 999 text latin
expect 2 "negative.npy: has a token -1" --convert --out bad/a --shard-tokens 999 train.bin negative.npy
[[ $(ls bad) == "" ]]
mkfifo pipe
python3 "$tokenize" --tokenizer tokenizer.json --out bad/a --shard-tokens 9999 text pipe >/dev/null &
until [[ -e bad/a_000003.bin ]]; do sleep 0.1; done
kill $!
status=0
wait $! || status=$?
((status == 143)) || { echo "status $status after SIGTERM, expected 143" && exit 1; }
[[ $(ls bad) == "" ]] || { echo "left after SIGTERM: $(ls bad)" && exit 1; }
# Not even if the signal comes with the call that makes a file.
cat >at_open.py <<'END'
import builtins
import os
import runpy
import signal
import sys

plain = open


def opened(path, *mode):
    file = plain(path, *mode)
    if mode == ("xb",):
        os.kill(os.getpid(), signal.SIGTERM)
    return file


builtins.open = opened
runpy.run_path(sys.argv.pop(1), run_name="__main__")
END
status=0
python3 at_open.py "$tokenize" --tokenizer tokenizer.json --out bad/a text >/dev/null || status=$?
((status == 143)) || { echo "status $status after SIGTERM, expected 143" && exit 1; }
[[ $(ls bad) == "" ]] || { echo "left after SIGTERM: $(ls bad)" && exit 1; }
expect 2 "--tokenizer text: is not valid JSON" --tokenizer text --out bad/a text
touch new_000000.bin.partial
expect 2 "new_000000.bin.partial: is there already" --tokenizer tokenizer.json --out new text
[[ -e new_000000.bin.partial ]]

python3 - <<'END'
import array
import glob
import json
import re
import struct


def shards(prefix):
    tokens = array.array("H")
    for path in sorted(glob.glob(prefix + "_*.bin")):
        content = open(path, "rb").read()
        assert struct.unpack("<3i", content[:12]) == (20240520, 1, (len(content) - 1024) // 2), path
        tokens.frombytes(content[1024:])
    return list(tokens)


tokens = json.load(open("tokens.json"))
for folder in "h", "i", "q", "two", "many":
    assert shards(f"{folder}/a") == tokens, folder
text = open("text", newline="").read()
whole = [sum(map(ord, word)) % 9000 for word in re.findall(r"'s| ?\w+| ?[^\s\w]+|\s+(?!\S)|\s+", text)]
for folder, end in ("texts", 9001), ("saved", 9001), ("config", 9002):
    assert shards(f"{folder}/a") == [end] + whole + [end] + whole, folder
assert shards("endless/a") == whole
END
