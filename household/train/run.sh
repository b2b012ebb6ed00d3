#!/bin/sh
# Makes the default model from nothing: data set, vocabulary, weights, GGUF file, check. Again with the same values it
# goes on where it was. What it makes lies in $XDG_CACHE_HOME/agentd/train. README.md says what the values mean.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
root=$(CDPATH='' cd -- "$here/../.." && pwd)
: "${GROUPS_TRAIN:=6000}" "${GROUPS_FIRST:=1500}" "${GROUPS_EVAL:=100}" "${SEED:=1}" "${STEPS_FIRST:=400}" "${STEPS:=8000}" "${COOL:=8000}"
: "${WEIGHTS:=}" "${KEEP:=0}" "${RATE:=2e-3}" "${TYPE:=bfloat16}" "${THREADS:=$(nproc)}" "${PYTHON:=python3}"
work=${XDG_CACHE_HOME:-$HOME/.cache}/agentd/train
run=$work/run-$GROUPS_TRAIN-$GROUPS_FIRST-$STEPS_FIRST-$SEED
if [ -n "$WEIGHTS" ]; then
	[ -r "$WEIGHTS" ] || {
		echo "WEIGHTS: there is no file $WEIGHTS" >&2
		exit 1
	}
	WEIGHTS=$(realpath -- "$WEIGHTS")
	run=$work/run-$GROUPS_TRAIN-$(sha256sum "$WEIGHTS" | cut -c1-12)-$SEED
fi
data=$work/train-$GROUPS_TRAIN-$SEED.jsonl
first=$work/first-$GROUPS_FIRST-$SEED.jsonl
held_out=$work/eval-$GROUPS_EVAL-1.jsonl
case $KEEP in
0 | 1 | 0.[0-9]*) ;;
*)
	echo "KEEP: $KEEP is no share, such as 0.3" >&2
	exit 1
	;;
esac
[ -n "$WEIGHTS" ] || [ "$KEEP" = 0 ] || {
	echo "KEEP: nothing can be kept of WEIGHTS, of which there are none" >&2
	exit 1
}
mkdir -p "$run"

make -C "$root" llama.cpp # for the check at the end

venv=$work/venv
if ! cmp -s "$here/requirements.txt" "$venv/requirements.txt"; then
	"$PYTHON" -m venv "$venv"
	"$venv/bin/pip" install -r "$here/requirements.txt"
	cp "$here/requirements.txt" "$venv/requirements.txt"
fi

# Files get their names when they are whole.
dataset() { # file, seed, further arguments
	file=$1
	seed=$2
	shift 2
	[ -s "$file" ] || {
		(cd "$root" && go run ./cmd/household dataset --seed "$seed" --out "$file.new" "$@")
		mv "$file.new" "$file"
	}
	(cd "$work" && sha256sum "${file##*/}") | tee -a "$run/data.sha256.new"
}
rm -f "$run/data.sha256.new"
dataset "$data" "$SEED" --groups "$GROUPS_TRAIN"
[ -n "$WEIGHTS" ] || dataset "$first" "$SEED" --groups "$GROUPS_FIRST" --lesson
dataset "$held_out" 1 --groups "$GROUPS_EVAL" --eval
if [ -n "$WEIGHTS" ]; then # what they were trained on belongs to it
	before=$(dirname -- "$WEIGHTS")/data.sha256
	[ ! -s "$before" ] || cat "$before" "$run/data.sha256.new" >"$run/data.sha256.all"
	[ ! -s "$before" ] || mv "$run/data.sha256.all" "$run/data.sha256.new"
fi
mv "$run/data.sha256.new" "$run/data.sha256"

python() { "$venv/bin/python" "$@"; }
cd "$here"
if [ -n "$WEIGHTS" ]; then
	curve=$(dirname -- "$WEIGHTS")/curve.csv
	[ -s "$curve" ] || curve=/dev/null
	[ -s "$run/begin.pt" ] ||
		python restore.py --model "$WEIGHTS" --curve "$curve" --tokenizer "$run/tokenizer.json" --checkpoint "$run/begin.pt"
	set -- --weights "$run/begin.pt"
else
	[ -s "$run/tokenizer.json" ] || {
		python tokenizer.py --data "$data" --out "$run/tokenizer.json.new"
		mv "$run/tokenizer.json.new" "$run/tokenizer.json"
	}
	set -- --first "$first" --first-steps "$STEPS_FIRST"
fi

# Weights that were cooled after fewer steps would pass for those of this run, which goes on past them.
if [ -s "$run/cooled.pt" ] && [ -s "$run/checkpoint.pt" ]; then
	at=$(python -c 'import sys, torch; print(torch.load(sys.argv[1], map_location="cpu", weights_only=True)["step"])' "$run/checkpoint.pt")
	[ "$at" -ge "$STEPS" ] || rm "$run/cooled.pt"
fi

# The C library would give large blocks back and get them zeroed again: a fifth of the time. tcmalloc saves a sixth more.
tcmalloc=libtcmalloc_minimal.so.4
"$root/third_party/prereqs.sh" tcmalloc || tcmalloc=
MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=268435456 LD_PRELOAD=$tcmalloc \
	python train.py --data "$data" --eval "$held_out" --tokenizer "$run/tokenizer.json" --out "$run" "$@" \
	--steps "$STEPS" --cool "$COOL" --rate "$RATE" --type "$TYPE" --seed "$SEED" --threads "$THREADS"
kept=cooled.pt
[ "$COOL" -gt 0 ] || kept=checkpoint.pt # nothing cooled: the average of the last steps is in it
set --
[ -z "$WEIGHTS" ] || set -- --before "$run/begin.pt" --keep "$KEEP"
python export.py "$@" --checkpoint "$run/$kept" --tokenizer "$run/tokenizer.json" --out "$run/household.gguf" \
	--data "$held_out" --expect "$run/expect.json"
(cd "$root" && go run ./household/train/check --model "$run/household.gguf" --expect "$run/expect.json")

cat <<END
Serve it:                  ./agentd --model $run/household.gguf
Make it the default model: cp $run/household.gguf $run/curve.csv $run/data.sha256 $root/inference/defaultmodel/weights/, with a curve.svg of curve.csv
END
