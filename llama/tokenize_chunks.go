package llama

// #include "native/api.h"
import "C"

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// chunkBytes is how many bytes of a text a recursing pre-tokenizer gets at once. It needs some 320 bytes of stack for
// each character that its expression matches, so a thread's 8 MiB last for 26,000 characters.
const chunkBytes = 8192

// maxTokenizerStack is the most stack that a pre-tokenizer may need for 2,048 equal characters and pass for iterative.
// One that recurses needs 640 KiB.
const maxTokenizerStack = 256 << 10

// iterative are the pre-tokenizers (tokenizer.ggml.pre) whose expressions llama.cpp v0.5.0 writes out as loops, or
// that match a single character (src/unicode.cpp, unicode_regex_split_custom; src/llama-vocab.cpp, llm_tokenizer_bpe).
// llama.cpp gives all others to std::regex, which recurses for each character
// (https://github.com/ggml-org/llama.cpp/issues/27783): a very long word would overflow the stack. The list is checked
// by measurement when a model loads, see recurses.
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

// recurses reports whether the pre-tokenizer of a vocabulary recurses: if it is not listed as iterative, or needs much
// stack all the same. The latter means that llama.cpp has changed, and is logged.
func recurses(metadata map[string]string, vocab *C.struct_llama_vocab) (bool, error) {
	name := metadata["tokenizer.ggml.pre"]
	switch metadata["tokenizer.ggml.model"] {
	case "gpt2", "hybriddna", "whitespace": // the ones that have a pre-tokenizer
		if !iterative[name] {
			return true, nil
		}
	default:
		return false, nil
	}
	var cerr *C.char
	stack := int64(C.agd_tokenizer_stack(vocab, &cerr))
	if stack < 0 {
		return false, fmt.Errorf("measure the tokenizer's stack: %s", takeString(cerr))
	}
	if stack <= maxTokenizerStack {
		return false, nil
	}
	if l := logger.Load(); l != nil {
		l.Warn().Str("pre_tokenizer", name).Int64("stack_bytes", stack).
			Msg("llama.cpp's pre-tokenizer now recurses; long texts are tokenized in chunks (remove it from the list in tokenize_chunks.go)")
	}
	return true, nil
}

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
