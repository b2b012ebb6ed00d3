package llama

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// window is how many bytes of a text a recursing pre-tokenizer is given at once. It goes some 320 bytes deeper for
// each character of what its expression matches, so that a stack of 8 MiB, as threads have, ends after 26,000.
const window = 8192

// iterative are the pre-tokenizers (tokenizer.ggml.pre) whose expressions llama.cpp 3.22.1 has written out as loops, or that
// match a single character (src/unicode.cpp, unicode_regex_split_custom; src/llama-vocab.cpp, llm_tokenizer_bpe). It
// gives all others to std::regex, which recurses for each character
// (https://github.com/ggml-org/llama.cpp/issues/27783): a word without an end would end the process.
var iterative = func() map[string]bool {
	names := map[string]bool{}
	for _, name := range strings.Fields(`
		llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe glm4 chatglm-bpe
		gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais exaone4 trillion granite-docling
		qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan megrez solar-open grok-2 qwen35
		starcoder refact command-r smollm codeshell exaone minerva-7b mellum2 kimi-k2 gemma4`) {
		names[name] = true
	}
	return names
}()

// recurses says whether the pre-tokenizer of a model's vocabulary is one that recurses.
func recurses(metadata map[string]string) bool {
	switch metadata["tokenizer.ggml.model"] {
	case "gpt2", "hybriddna", "whitespace": // the ones that have a pre-tokenizer
		return !iterative[metadata["tokenizer.ggml.pre"]]
	}
	return false
}

// firstWindow is how many bytes of a text may be tokenized by themselves: all of a text that is short enough, else up to the last place
// in a window where every pre-tokenizer begins anew: behind a line break, or before a single space. A text of a window
// without such a place is cut before a character that is no part of a word, or between any two, where its tokens
// may be others than they would be without the cut.
func firstWindow(text string) int {
	if len(text) <= window {
		return len(text)
	}
	space, mark, any := 0, 0, 0
	var last rune // the character before the place
	for i, r := range text {
		if i > window {
			break
		}
		if i > 0 {
			any = i
			switch {
			case last == '\n' && !unicode.IsSpace(r):
				space = i
			case r == ' ' && !unicode.IsSpace(last):
				if next, _ := utf8.DecodeRuneInString(text[i+1:]); !unicode.IsSpace(next) && i+1 < len(text) {
					space = i
				}
			case word(last) && !word(r) && !unicode.IsSpace(r) && r != '\'' && r != '’':
				mark = i
			}
		}
		last = r
	}
	for _, at := range []int{space, mark, any} {
		if at > 0 {
			return at
		}
	}
	return len(text)
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) }
