#!/bin/sh
# Makes the default model from nothing: data set, vocabulary, weights, GGUF file, check. Again with the same values it
# goes on where it was. What it makes lies in $XDG_CACHE_HOME/agentd/train. README.md says what the values mean.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../../.." && pwd)
: "${GROUPS_TRAIN:=6000}" "${GROUPS_FIRST:=1500}" "${GROUPS_EVAL:=100}" "${SEED:=1}" "${STEPS_FIRST:=1000}" "${STEPS:=8000}" "${COOL:=8000}" "${THREADS:=$(nproc)}" "${PYTHON:=python3}"
work=${XDG_CACHE_HOME:-$HOME/.cache}/agentd/train
run=$work/run-$GROUPS_TRAIN-$GROUPS_FIRST-$STEPS_FIRST-$SEED
data=$work/train-$GROUPS_TRAIN-$SEED.jsonl
first=$work/first-$GROUPS_FIRST-$SEED.jsonl
held_out=$work/eval-$GROUPS_EVAL-$SEED.jsonl
mkdir -p "$run"

make -C "$root" llama.cpp # for the check at the end

venv=$work/venv
if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
	"$PYTHON" -m venv "$venv"
	"$venv/bin/pip" install -r "$here/requirements.txt"
	cp "$here/requirements.txt" "$venv/requirements.txt"
fi

# Files get their names when they are whole.
dataset() { # file, further arguments
	file=$1
	shift
	[ -s "$file" ] || {
		(cd "$root" && go run ./models/household/dataset/cmd --seed "$SEED" --out "$file.new" "$@")
		mv "$file.new" "$file"
	}
}
dataset "$data" --groups "$GROUPS_TRAIN"
dataset "$first" --groups "$GROUPS_FIRST" --lesson
dataset "$held_out" --groups "$GROUPS_EVAL" --eval
(cd "$work" && sha256sum "${data##*/}" "${first##*/}" "${held_out##*/}") | tee "$run/data.sha256"

python() { "$venv/bin/python" "$@"; }
cd "$here"
[ -s "$run/tokenizer.json" ] || {
	python tokenizer.py --data "$data" --out "$run/tokenizer.json.new"
	mv "$run/tokenizer.json.new" "$run/tokenizer.json"
}

# The C library would give large blocks back to the system and get them zeroed again: a fifth of the time.
MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=268435456 \
	python train.py --data "$data" --eval "$held_out" --tokenizer "$run/tokenizer.json" --out "$run" \
	--first "$first" --first-steps "$STEPS_FIRST" --steps "$STEPS" --cool "$COOL" --seed "$SEED" --threads "$THREADS" --resume
python export.py --checkpoint "$run/cooled.pt" --tokenizer "$run/tokenizer.json" --out "$run/household.gguf" \
	--data "$held_out" --expect "$run/expect.json"
(cd "$root" && go run ./models/household/train/check --model "$run/household.gguf" --expect "$run/expect.json")

cat <<END
Serve it:                  ./agentd --model $run/household.gguf
Make it the default model: cp $run/household.gguf $run/curve.svg $run/data.sha256 $root/models/household/weights/
END
