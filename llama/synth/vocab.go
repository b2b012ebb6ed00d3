package synth

import (
	"fmt"
	"slices"
	"strings"

	"agentd/llama/internal/gguf"
)

// vocabulary is a GGUF file's description of its tokens.
type vocabulary struct {
	pre           string // name of the pre-tokenizer
	tokens        []string
	types         []int32
	merges        []string
	bos, eos, pad int
	rare          []int // tokens that a random model should generate very rarely
}

func (v *vocabulary) add(text string, typ int32) int {
	v.tokens = append(v.tokens, text)
	v.types = append(v.types, typ)
	return len(v.tokens) - 1
}

// id finds a token by its text; special and plain ones alike.
func (v *vocabulary) id(text string) (int, bool) {
	if i := slices.Index(v.tokens, text); i >= 0 {
		return i, true
	}
	i := slices.Index(v.tokens, byteText(text))
	return i, i >= 0
}

type special struct {
	text string
	typ  int32
}

// qwenSpecials are the tokens that Qwen 3 adds to Qwen's vocabulary, from id
// 151643 on. What looks like markup of the dialogue is a control token; what
// models write in their answers is user-defined.
var qwenSpecials = []special{
	{"<|endoftext|>", gguf.Control}, {"<|im_start|>", gguf.Control}, {"<|im_end|>", gguf.Control},
	{"<|object_ref_start|>", gguf.Control}, {"<|object_ref_end|>", gguf.Control},
	{"<|box_start|>", gguf.Control}, {"<|box_end|>", gguf.Control},
	{"<|quad_start|>", gguf.Control}, {"<|quad_end|>", gguf.Control},
	{"<|vision_start|>", gguf.Control}, {"<|vision_end|>", gguf.Control}, {"<|vision_pad|>", gguf.Control},
	{"<|image_pad|>", gguf.Control}, {"<|video_pad|>", gguf.Control},
	{"<tool_call>", gguf.UserDefined}, {"</tool_call>", gguf.UserDefined},
	{"<|fim_prefix|>", gguf.Control}, {"<|fim_middle|>", gguf.Control}, {"<|fim_suffix|>", gguf.Control},
	{"<|fim_pad|>", gguf.Control}, {"<|repo_name|>", gguf.Control}, {"<|file_sep|>", gguf.Control},
	{"<tool_response>", gguf.UserDefined}, {"</tool_response>", gguf.UserDefined},
	{"<think>", gguf.UserDefined}, {"</think>", gguf.UserDefined},
}

// qwenFirstSpecial is the id of <|endoftext|> in the real vocabulary.
const qwenFirstSpecial = 151643

// patchQwen puts Qwen 3's special tokens where the vocabulary file of
// llama.cpp has fillers, and marks the fillers left as unused.
func patchQwen(v *vocabulary) error {
	if len(v.tokens) < qwenFirstSpecial+len(qwenSpecials) || v.tokens[qwenFirstSpecial] != qwenSpecials[0].text {
		return fmt.Errorf("synth: the vocabulary of %d tokens is not Qwen's: %s is not token %d", len(v.tokens), qwenSpecials[0].text, qwenFirstSpecial)
	}
	for i, s := range qwenSpecials {
		v.tokens[qwenFirstSpecial+i], v.types[qwenFirstSpecial+i] = s.text, s.typ
	}
	for i := qwenFirstSpecial + len(qwenSpecials); i < len(v.tokens); i++ {
		v.types[i] = gguf.Unused
	}
	for i := qwenFirstSpecial; i < len(v.tokens); i++ {
		v.rare = append(v.rare, i)
	}
	v.bos, v.pad, v.eos = qwenFirstSpecial, qwenFirstSpecial, qwenFirstSpecial+2
	return nil
}

// dialect is what a small vocabulary adds to the pairs of bytes.
type dialect struct {
	pre, bos, eos, pad string
	specials           []special
	ends               bool // eos is as probable as any token without a Bias
}

var (
	qwen = dialect{"qwen2", "<|endoftext|>", "<|im_end|>", "<|endoftext|>", qwenSpecials, false}
	// <|return|> and <|call|> end a generation, <|end|> does not: llama.cpp sees to that when it finds all three.
	harmony = dialect{"gpt-4o", "<|startoftext|>", "<|return|>", "<|endoftext|>", control("<|startoftext|>", "<|endoftext|>", "<|return|>",
		"<|constrain|>", "<|channel|>", "<|start|>", "<|end|>", "<|message|>", "<|call|>"), true}
	// llama.cpp knows by their names that <|eot_id|>, <|eom_id|> and <|end_of_text|> end a generation.
	llama3 = dialect{"llama-bpe", "<|begin_of_text|>", "<|eot_id|>", "<|finetune_right_pad_id|>", control("<|begin_of_text|>", "<|end_of_text|>",
		"<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>", "<|eom_id|>", "<|finetune_right_pad_id|>", "<|eot_id|>"), true}
)

func control(texts ...string) (list []special) {
	for _, text := range texts {
		list = append(list, special{text, gguf.Control})
	}
	return list
}

func (d *dialect) vocabulary() *vocabulary {
	v := bytePairs()
	v.pre = d.pre
	ids := map[string]int{}
	for _, s := range d.specials {
		ids[s.text] = v.add(s.text, s.typ)
		if !d.ends || s.text != d.eos {
			v.rare = append(v.rare, ids[s.text])
		}
	}
	v.bos, v.eos, v.pad = ids[d.bos], ids[d.eos], ids[d.pad]
	return v
}

// bytePairs is a byte-level BPE vocabulary: every byte, and some common pairs.
func bytePairs() *vocabulary {
	v := &vocabulary{}
	for b := range 256 {
		id := v.add(string(byteRune(byte(b))), gguf.Normal)
		if b < ' ' || b > '~' {
			v.rare = append(v.rare, id)
		}
	}
	for _, pair := range strings.Fields(commonPairs) {
		left, right, _ := strings.Cut(pair, "+")
		left, right = strings.ReplaceAll(left, "_", "Ġ"), strings.ReplaceAll(right, "_", "Ġ")
		v.merges = append(v.merges, left+" "+right)
		v.add(left+right, gguf.Normal)
	}
	return v
}

// commonPairs are merges of English and JSON in the order of their rank; _ is a space.
const commonPairs = `_+t h+e i+n e+r a+n r+e o+n a+t e+n o+r e+s i+s i+t a+l o+u a+r s+t n+d
_t+he in+g _+a _+s _+w _+c _+b _+p _+f _+m _+d _+o _+i t+o o+m l+l e+d c+h l+e v+e r+o u+s
an+d _+l _+h i+on en+t _a+nd _to+_ o+l i+l a+s "+: "+, "+} {+" \+n r+i s+e k+e m+e o+t i+c`

// byteRune is the character that stands for a byte in byte-level BPE: itself
// if it is printable Latin-1, else one from U+0100 on (GPT-2's table).
func byteRune(b byte) rune {
	printable := func(b int) bool { return b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE }
	if printable(int(b)) {
		return rune(b)
	}
	r := rune(0x100)
	for c := range int(b) {
		if !printable(c) {
			r++
		}
	}
	return r
}

// byteText is text in the characters of byte-level BPE.
func byteText(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteRune(byteRune(text[i]))
	}
	return b.String()
}
