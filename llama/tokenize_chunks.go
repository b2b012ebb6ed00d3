package llama

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// chunkBytes is how many bytes of a text a pre-tokenizer gets at once. llama.cpp gives the expressions of many of them
// to std::regex, which recurses for each character (https://github.com/ggml-org/llama.cpp/issues/27783) and needs some
// 320 bytes of stack for it. A thread's 8 MiB last for 26,000 characters.
const chunkBytes = 8192

// wordBytes is how long a chunk may become that no word ends in: llama.cpp takes some fifty times its bytes of memory.
const wordBytes = 256 << 10

// maxMarkup is how long a special token may be that no chunk ends in.
const maxMarkup = 64

// preTokenizes are the kinds of vocabularies (tokenizer.ggml.model) that have a pre-tokenizer.
var preTokenizes = map[string]bool{"gpt2": true, "hybriddna": true, "whitespace": true}

// linear are the pre-tokenizers (tokenizer.ggml.pre) that cut words without std::regex: the patch's
// (agentd-unicode.h), and GPT-2's.
var linear = map[string]bool{"llama-bpe": true, "llama3": true, "qwen2": true, "qwen35": true, "gpt-4o": true, "smollm": true, "gpt-2": true}

// firstChunk returns how many bytes of a text to tokenize separately. A short text stays whole. A longer one is cut at
// the last place in a chunk where every pre-tokenizer starts a new word: after a line break, before a single space, or
// between a letter and a sign. Without such a place a text is cut at the next one, up to wordBytes. If words are cut
// recursively, or none ends there, it is cut between any two characters. Only there may the tokens differ from the
// whole text's.
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
