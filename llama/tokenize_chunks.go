package llama

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// chunkBytes is how many bytes of a text are pre-tokenized at once. For many pre-tokenizers llama.cpp uses std::regex,
// which recurses for each character (https://github.com/ggml-org/llama.cpp/issues/27783) and takes about 320 bytes of
// stack for it: a thread's 8 MiB suffice for 26,000 characters.
const chunkBytes = 8192

// wordBytes bounds a chunk in which no word ends. llama.cpp needs about fifty times its bytes of memory.
const wordBytes = 256 << 10

// maxMarkup bounds the length of special tokens within which no chunk may end.
const maxMarkup = 64

// preTokenizes are the kinds of vocabularies (tokenizer.ggml.model) that have a pre-tokenizer.
var preTokenizes = map[string]bool{"gpt2": true, "hybriddna": true, "whitespace": true}

// linear are the pre-tokenizers (tokenizer.ggml.pre) that split words without std::regex: the patch's
// (agentd-unicode.h), and GPT-2's.
var linear = map[string]bool{"llama-bpe": true, "llama3": true, "qwen2": true, "qwen35": true, "gpt-4o": true, "smollm": true, "gpt-2": true}

// firstChunk returns how many bytes of a text to tokenize separately. A short text stays whole. A longer one is split
// at the last place in a chunk where every pre-tokenizer begins a new word: after a line break, before a single space,
// or between a letter and a sign. Without such a place it is split at the next one, up to wordBytes. With recursive, or
// without a place up to there, it is split between any two characters; only then may the tokens differ from the whole
// text's.
func firstChunk(text string, recursive bool) int {
	if len(text) <= chunkBytes {
		return len(text)
	}
	space, mark, anywhere := 0, 0, 0
	var last, before rune // the characters before the place
	for i, r := range text {
		if i > chunkBytes && (recursive || space+mark > 0) || i > wordBytes {
			break
		}
		if i > 0 {
			anywhere = i
			switch {
			case last == '\n' && r != '/' && !unicode.IsSpace(before) && !unicode.IsSpace(r):
				space = i
			case r == ' ' && !unicode.IsSpace(last):
				if next, _ := utf8.DecodeRuneInString(text[i+1:]); !unicode.IsSpace(next) && i+1 < len(text) {
					space = i
				}
			case (unicode.IsLetter(last) || unicode.IsNumber(last)) && (unicode.IsPunct(r) || unicode.IsSymbol(r)) && r != '\'':
				mark = i
			}
		}
		last, before = r, last
	}
	if !recursive && len(text) <= wordBytes && space+mark == 0 {
		return len(text)
	}
	at := cmp.Or(space, mark, anywhere, len(text))
	if open := strings.LastIndexAny(text[:at], "<["); space == 0 && open > max(0, at-maxMarkup) && !strings.ContainsAny(text[open:at], ">]") {
		return open
	}
	return at
}
