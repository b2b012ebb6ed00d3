package llama

import (
	"unicode"
	"unicode/utf8"
)

// chunkBytes is how many bytes of a text a pre-tokenizer gets at once. llama.cpp gives the expressions of many of them
// to std::regex, which recurses for each character (https://github.com/ggml-org/llama.cpp/issues/27783) and needs some
// 320 bytes of stack for it. A thread's 8 MiB last for 26,000 characters.
const chunkBytes = 8192

// preTokenizes are the kinds of vocabularies (tokenizer.ggml.model) that have a pre-tokenizer.
var preTokenizes = map[string]bool{"gpt2": true, "hybriddna": true, "whitespace": true}

// firstChunk returns how many bytes of a text to tokenize separately. A short text stays whole. A longer one is cut at
// the last place in a chunk where every pre-tokenizer starts a new word: after a line break, or before a single space.
// Without such a place it is cut before a character that is not part of a word, or between any two. Only there may the
// tokens differ from the whole text's.
func firstChunk(text string) int {
	if len(text) <= chunkBytes {
		return len(text)
	}
	space, mark, anywhere := 0, 0, 0
	var last rune // the character before the place
	for i, r := range text {
		if i > chunkBytes {
			break
		}
		if i > 0 {
			anywhere = i
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
	for _, at := range []int{space, mark, anywhere} {
		if at > 0 {
			return at
		}
	}
	return len(text)
}

func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) }
