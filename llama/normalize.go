package llama

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Normalizers of a vocabulary, as tokenizer.json names them.
const (
	NormalizerKey  = "agentd.tokenizer.normalizer" // in the metadata of a file
	NormalizerNFC  = "NFC"
	NormalizerNone = "none"
)

// normalizedBy are pre-tokenizers whose published tokenizers normalize texts, for files that do not say it.
var normalizedBy = map[string]string{"qwen2": NormalizerNFC, "qwen35": NormalizerNFC}

// normalizes reports whether a model's texts are normalized before they are tokenized.
func normalizes(metadata map[string]string) bool {
	kind, said := metadata[NormalizerKey]
	if !said {
		kind = normalizedBy[metadata["tokenizer.ggml.pre"]]
	}
	return kind == NormalizerNFC
}

// normalize returns a text in NFC. With special, texts of special tokens are cut out first, and what is between them is
// normalized alone, as the library tokenizers does.
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

// appendNFC appends a text in the NFC of the library tokenizers 0.23: of Unicode 9, for which the marks of later versions
// are characters like others.
func appendNFC(b *strings.Builder, text string) {
	for text != "" {
		at := strings.IndexFunc(text, func(r rune) bool { return unicode.Is(laterMarks, r) })
		if at < 0 {
			at = len(text)
		}
		b.WriteString(norm.NFC.String(text[:at]))
		_, size := utf8.DecodeRuneInString(text[at:])
		b.WriteString(text[at : at+size])
		text = text[at+size:]
	}
}

// laterMarks are characters of Unicode 10 to 15 that would be moved or composed.
var laterMarks = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x7fd, 0x7fd, 1}, {0x898, 0x89f, 1}, {0x8ca, 0x8d3, 1}, {0x9fe, 0x9fe, 1}, {0xc3c, 0xc3c, 1}, {0xd3b, 0xd3c, 1}, {0xeba, 0xeba, 1},
		{0x1715, 0x1715, 1}, {0x1abf, 0x1ace, 1}, {0x1df6, 0x1dfa, 1}, {0xa82c, 0xa82c, 1},
	},
	R32: []unicode.Range32{
		{0x10d24, 0x10d27, 1}, {0x10eab, 0x10eac, 1}, {0x10efd, 0x10eff, 1}, {0x10f46, 0x10f50, 1}, {0x10f82, 0x10f85, 1}, {0x11070, 0x11070, 1},
		{0x1133b, 0x1133b, 1}, {0x1145e, 0x1145e, 1}, {0x11839, 0x1183a, 1}, {0x11930, 0x11930, 1}, {0x1193d, 0x1193e, 1}, {0x11943, 0x11943, 1},
		{0x119e0, 0x119e0, 1}, {0x11a34, 0x11a34, 1}, {0x11a47, 0x11a47, 1}, {0x11a99, 0x11a99, 1}, {0x11d42, 0x11d42, 1}, {0x11d44, 0x11d45, 1},
		{0x11d97, 0x11d97, 1}, {0x11f41, 0x11f42, 1}, {0x16ff0, 0x16ff1, 1}, {0x1e08f, 0x1e08f, 1}, {0x1e130, 0x1e136, 1}, {0x1e2ae, 0x1e2ae, 1},
		{0x1e2ec, 0x1e2ef, 1}, {0x1e4ec, 0x1e4ef, 1},
	},
}

// specialTexts matches the texts of special tokens, the longest first.
func specialTexts(v *Vocab) *regexp.Regexp {
	var texts []string
	for _, t := range v.special {
		if piece := v.piece(t); piece != "" {
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
