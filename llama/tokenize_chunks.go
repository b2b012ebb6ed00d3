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

// maxMarkup is how long a special token may be that no chunk ends in.
const maxMarkup = 64

// preTokenizes are the kinds of vocabularies (tokenizer.ggml.model) that have a pre-tokenizer.
var preTokenizes = map[string]bool{"gpt2": true, "hybriddna": true, "whitespace": true}

// firstChunk returns how many bytes of a text to tokenize separately. A short text stays whole. A longer one is cut at
// the last place in a chunk where every pre-tokenizer starts a new word: after a line break, or before a single space.
// Without such a place it is cut before a character that is not part of a word, or between any two, but not in what may
// be a special token. Only there may the tokens differ from the whole text's.
func firstChunk(text string) int {
	if len(text) <= chunkBytes {
		return len(text)
	}
	space, mark, anywhere := 0, 0, 0
	var last, before rune // the characters before the place
	for i, r := range text {
		if i > chunkBytes {
			break
		}
		if i > 0 {
			anywhere = i
			switch {
			case last == '\n' && !unicode.IsSpace(before) && !unicode.IsSpace(r):
				space = i
			case r == ' ' && !unicode.IsSpace(last):
				if next, _ := utf8.DecodeRuneInString(text[i+1:]); !unicode.IsSpace(next) && i+1 < len(text) {
					space = i
				}
			case word(last) && !word(r) && !unicode.IsSpace(r) && r != '\'' && r != '’':
				mark = i
			}
		}
		last, before = r, last
	}
	if space > 0 {
		return space
	}
	at := cmp.Or(mark, anywhere, len(text))
	if open := strings.LastIndexAny(text[:at], "<["); open > max(0, at-maxMarkup) && !strings.ContainsAny(text[open:at], ">]") {
		return open
	}
	return at
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) }
