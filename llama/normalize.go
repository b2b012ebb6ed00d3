package llama

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"agentd/llama/internal/gguf"
)

// normalizedBy has the normalizers of published tokenizers by pre-tokenizer, for files without gguf.NormalizerKey.
var normalizedBy = map[string]string{"qwen2": gguf.NormalizerNFC, "qwen35": gguf.NormalizerNFC}

// normalizes reports whether a model's texts are normalized before they are tokenized.
func normalizes(metadata map[string]string) bool {
	kind, said := metadata[gguf.NormalizerKey]
	if !said {
		kind = normalizedBy[metadata["tokenizer.ggml.pre"]]
	}
	return kind == gguf.NormalizerNFC
}

// normalize returns a text in NFC. With special, the parts between texts of special tokens are normalized separately,
// as in the library tokenizers.
func (v *Vocab) normalize(text string, special bool) string {
	if !v.nfc || norm.NFC.IsNormalString(text) {
		return text
	}
	var b strings.Builder
	for special && text != "" {
		found := v.specials().FindStringIndex(text)
		if found == nil {
			break
		}
		appendNFC(&b, text[:found[0]])
		b.WriteString(text[found[0]:found[1]])
		text = text[found[1]:]
	}
	appendNFC(&b, text)
	return b.String()
}

// appendNFC appends a text in the NFC of the library tokenizers 0.23. Its tables are from Unicode 9: a later
// character has no decomposition, does not combine, and no mark moves past it. Any number of marks combine, while
// package norm inserts U+034F after each 30.
func appendNFC(b *strings.Builder, text string) {
	for text != "" {
		done := norm.NFC.QuickSpanString(text)
		b.WriteString(text[:done])
		text = text[done:]
		end := 0 // of characters that may combine with each other
		for i, r := range text {
			if i > 0 && r < '\u0300' {
				break
			}
			end = i + utf8.RuneLen(r)
		}
		compose(b, text[:end])
		text = text[end:]
	}
}

// compose writes the canonical composition of a text without bytes that are not UTF-8.
func compose(b *strings.Builder, text string) {
	list := decompose(text)
	for i := 0; i < len(list); {
		j := i + 1
		for j < len(list) && list[j].class != 0 {
			j++
		}
		slices.SortStableFunc(list[i:j], func(a, b mark) int { return int(a.class) - int(b.class) })
		i = j
	}
	starter, last := -1, uint8(0) // the character to combine with; the class of the one before
	kept := list[:0]
	for i, m := range list {
		adjacent := starter == len(kept)-1
		if starter >= 0 && (adjacent || last < m.class) {
			if r, ok := composed(kept[starter].char, m.char); ok {
				kept[starter].char = r
				continue
			}
		}
		if m.class == 0 {
			starter = len(kept)
		}
		last = list[i].class
		kept = append(kept, m)
	}
	for _, m := range kept {
		b.WriteRune(m.char)
	}
}

// mark is a character with its combining class, 0 for letters.
type mark struct {
	char  rune
	class uint8
}

func decompose(text string) []mark {
	list := make([]mark, 0, len(text))
	for _, r := range text {
		switch {
		case r < 0xC0 || unicode.Is(newer, r):
			list = append(list, mark{char: r})
		default:
			for _, part := range norm.NFD.String(string(r)) {
				list = append(list, mark{part, norm.NFD.PropertiesString(string(part)).CCC()})
			}
		}
	}
	return list
}

// composed returns the canonical composition of two characters.
func composed(a, b rune) (rune, bool) {
	if unicode.Is(newer, a) || unicode.Is(newer, b) {
		return 0, false
	}
	one := norm.NFC.String(string([]rune{a, b}))
	r, size := utf8.DecodeRuneInString(one)
	return r, size == len(one) && !unicode.Is(newer, r)
}

// newer are the characters after Unicode 9 with a combining class or a decomposition.
var newer = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x7fd, 0x7fd, 1}, {0x898, 0x89f, 1}, {0x8ca, 0x8d3, 1}, {0x9fe, 0x9fe, 1}, {0xc3c, 0xc3c, 1}, {0xd3b, 0xd3c, 1},
		{0xeba, 0xeba, 1}, {0x1715, 0x1715, 1}, {0x1abf, 0x1ace, 1}, {0x1df6, 0x1dfa, 1}, {0xa82c, 0xa82c, 1},
	},
	R32: []unicode.Range32{
		{0x10d24, 0x10d27, 1}, {0x10eab, 0x10eac, 1}, {0x10efd, 0x10eff, 1}, {0x10f46, 0x10f50, 1}, {0x10f82, 0x10f85, 1},
		{0x11070, 0x11070, 1}, {0x1133b, 0x1133b, 1}, {0x1145e, 0x1145e, 1}, {0x11839, 0x1183a, 1}, {0x11938, 0x11938, 1},
		{0x1193d, 0x1193e, 1}, {0x11943, 0x11943, 1}, {0x119e0, 0x119e0, 1}, {0x11a34, 0x11a34, 1}, {0x11a47, 0x11a47, 1},
		{0x11a99, 0x11a99, 1}, {0x11d42, 0x11d42, 1}, {0x11d44, 0x11d45, 1}, {0x11d97, 0x11d97, 1}, {0x11f41, 0x11f42, 1},
		{0x16ff0, 0x16ff1, 1}, {0x1e08f, 0x1e08f, 1}, {0x1e130, 0x1e136, 1}, {0x1e2ae, 0x1e2ae, 1}, {0x1e2ec, 0x1e2ef, 1},
		{0x1e4ec, 0x1e4ef, 1},
	},
}

// specialTexts matches the texts of special tokens, the longest first.
func specialTexts(v *Vocab) *regexp.Regexp {
	var texts []string
	for _, t := range v.special {
		if piece := v.piece(t); piece != "" && utf8.ValidString(piece) { // no text has another one
			texts = append(texts, regexp.QuoteMeta(piece))
		}
	}
	if texts == nil {
		return regexp.MustCompile(`[^\s\S]`) // nothing
	}
	r := regexp.MustCompile(strings.Join(texts, "|"))
	r.Longest()
	return r
}
