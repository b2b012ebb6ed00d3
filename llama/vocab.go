package llama

// #include <stdlib.h>
// #include "native/api.h"
import "C"

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"
)

// Token is the id of a vocabulary entry, from 0 to Size()-1.
type Token = int32

// Attr is a set of attributes of a token, as llama_token_attr.
type Attr uint16

// Attributes of a token.
const (
	AttrUnknown     Attr = C.LLAMA_TOKEN_ATTR_UNKNOWN
	AttrControl     Attr = C.LLAMA_TOKEN_ATTR_CONTROL
	AttrUserDefined Attr = C.LLAMA_TOKEN_ATTR_USER_DEFINED
	attrEOG         Attr = C.AGD_FLAG_EOG
)

// Vocab is a model's vocabulary. All methods except Tokenize use Go memory only, so they are
// fast and can be called after the model is freed.
type Vocab struct {
	model     *Model
	ptr       *C.struct_llama_vocab
	index     *C.struct_agd_vocab_index // for samplers; freed with the model
	pieces    string                    // the texts of all tokens, special ones too, concatenated
	offsets   []uint32                  // Size()+1 offsets into pieces
	attrs     []Attr
	byPiece   map[string]Token
	twins     map[string][]Token // further tokens with the same text
	special   []Token
	bos, eos  Token
	addBOS    bool
	addEOS    bool
	markup    *regexp.Regexp // matches texts of user-defined tokens that look like markup; nil without any
	longest   int
	chunks    bool // long texts are tokenized in chunks
	recursive bool // std::regex splits words, so chunks must be short
	nfc       bool // texts are normalized to NFC
	specials  func() *regexp.Regexp
}

func newVocab(m *Model) (*Vocab, error) {
	ptr := C.llama_model_get_vocab(m.ptr)
	n := int(C.llama_vocab_n_tokens(ptr))
	if n == 0 {
		return nil, fmt.Errorf("the file has no vocabulary")
	}
	v := &Vocab{model: m, ptr: ptr, offsets: make([]uint32, n+1), attrs: make([]Attr, n), byPiece: make(map[string]Token, n), twins: map[string][]Token{}}
	v.chunks, v.nfc = preTokenizes[m.metadata["tokenizer.ggml.model"]], normalizes(m.metadata)
	v.recursive = !linear[m.metadata["tokenizer.ggml.pre"]] || !bool(C.agd_cuts_words())
	v.specials = sync.OnceValue(func() *regexp.Regexp { return specialTexts(v) })
	var blob, cerr *C.char
	if !C.agd_vocab_dump(ptr, &blob, (*C.uint32_t)(&v.offsets[0]), (*C.uint16_t)(&v.attrs[0]), &cerr) {
		return nil, fmt.Errorf("vocabulary: %s", takeString(cerr))
	}
	v.pieces = string(unsafe.Slice((*byte)(unsafe.Pointer(blob)), v.offsets[n]))
	C.free(unsafe.Pointer(blob))
	var markup []string
	for t := range Token(n) {
		v.longest = max(v.longest, len(v.piece(t)))
		if piece := v.piece(t); piece != "" {
			if _, dup := v.byPiece[piece]; !dup {
				v.byPiece[piece] = t
			} else {
				v.twins[piece] = append(v.twins[piece], t)
			}
		}
		if v.attrs[t]&(AttrControl|AttrUserDefined) != 0 {
			v.special = append(v.special, t)
		}
		if piece := v.piece(t); v.attrs[t]&AttrUserDefined != 0 && strings.HasPrefix(piece, "<") && strings.HasSuffix(piece, ">") && utf8.ValidString(piece) {
			markup = append(markup, regexp.QuoteMeta(piece))
		}
	}
	if markup != nil {
		v.markup = regexp.MustCompile(strings.Join(markup, "|"))
	}
	if v.index = C.agd_vocab_index_new(ptr); v.index == nil {
		return nil, fmt.Errorf("vocabulary: out of memory")
	}
	v.bos, v.eos = Token(C.llama_vocab_bos(ptr)), Token(C.llama_vocab_eos(ptr))
	v.addBOS, v.addEOS = bool(C.llama_vocab_get_add_bos(ptr)), bool(C.llama_vocab_get_add_eos(ptr))
	return v, nil
}

// piece returns the text of a valid token, special ones too.
func (v *Vocab) piece(t Token) string { return v.pieces[v.offsets[t]:v.offsets[t+1]] }

// LongestPiece returns the most bytes of a token's text, at least 1.
func (v *Vocab) LongestPiece() int { return max(1, v.longest) }

// valid reports whether t is a token of the vocabulary.
func (v *Vocab) valid(t Token) bool { return t >= 0 && int(t) < len(v.attrs) }

// Tokenize returns the tokens of a text. addSpecial adds BOS and EOS if the model's metadata says so. With parseSpecial
// the texts of special tokens, such as <|im_end|>, become these tokens. Without it they are plain text, as a user's
// text must be. Invalid UTF-8 becomes U+FFFD, and the text is normalized if the model's tokenizer has NFC. Long texts
// are tokenized in chunks, see firstChunk.
//
// Without parse_special, llama.cpp still finds user-defined tokens in a text, which GPT-OSS's <|start|> and
// <|channel|> are to it. So Tokenize splits the text after the first character of each.
func (v *Vocab) Tokenize(text string, addSpecial, parseSpecial bool) ([]Token, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("llama: tokenize: %d bytes of text, at most %d", len(text), MaxText)
	}
	// llama.cpp passes over some broken bytes and throws at others
	text = v.normalize(strings.ToValidUTF8(text, string(utf8.RuneError)), parseSpecial)
	v.model.mu.RLock()
	defer v.model.mu.RUnlock()
	if v.model.ptr == nil {
		return nil, ErrClosed
	}
	// Almost every token stands for at least one byte; a few special ones may be added.
	tokens := make([]Token, 0, len(text)+8)
	if addSpecial && v.addBOS && v.bos >= 0 {
		tokens = append(tokens, v.bos)
	}
	var cerr *C.char
	for chunk := ""; chunk != "" || text != ""; {
		if chunk == "" {
			cut := len(text)
			if v.chunks {
				cut = firstChunk(text, v.recursive)
			}
			chunk, text = text[:cut], text[cut:]
		}
		part := chunk
		if !parseSpecial && v.markup != nil {
			if found := v.markup.FindStringIndex(part); found != nil {
				part = part[:found[0]+1]
			}
		}
		room := tokens[len(tokens):cap(tokens)]
		n := C.agd_tokenize(v.ptr, (*C.char)(unsafe.Pointer(unsafe.StringData(part))), C.int32_t(len(part)),
			(*C.llama_token)(unsafe.Pointer(unsafe.SliceData(room))), C.int32_t(len(room)), false, C.bool(parseSpecial), &cerr)
		switch {
		case n == math.MinInt32:
			return nil, fmt.Errorf("llama: tokenize: %s", takeString(cerr))
		case n < 0: // again, with a list for so many
			tokens = slices.Grow(tokens, int(-n))
		default:
			tokens, chunk = tokens[:len(tokens)+int(n)], chunk[len(part):]
		}
	}
	if addSpecial && v.addEOS && v.eos >= 0 {
		tokens = append(tokens, v.eos)
	}
	return slices.Clone(tokens), nil
}

// Piece returns the text of one token, which may be a part of a UTF-8 character. Without special, control and unknown
// tokens have no text. Invalid tokens have no text.
func (v *Vocab) Piece(t Token, special bool) []byte { return []byte(v.pieceText(t, special)) }

func (v *Vocab) pieceText(t Token, special bool) string {
	if !v.valid(t) || !special && v.attrs[t]&(AttrControl|AttrUnknown) != 0 {
		return ""
	}
	return v.piece(t)
}

// Detokenize returns the text of tokens, see Piece for special. Invalid UTF-8 becomes U+FFFD.
func (v *Vocab) Detokenize(ts []Token, special bool) string {
	var b strings.Builder
	for _, t := range ts {
		b.WriteString(v.pieceText(t, special))
	}
	if utf8.ValidString(b.String()) {
		return b.String()
	}
	return string([]rune(b.String()))
}

// IsEOG reports whether t ends a generation (end of text, of turn, of message).
func (v *Vocab) IsEOG(t Token) bool { return v.valid(t) && v.attrs[t]&attrEOG != 0 }

// IsControl reports whether t is a control token.
func (v *Vocab) IsControl(t Token) bool { return v.valid(t) && v.attrs[t]&AttrControl != 0 }

// Attr returns the attributes of t, 0 for an invalid token.
func (v *Vocab) Attr(t Token) Attr {
	if !v.valid(t) {
		return 0
	}
	return v.attrs[t] &^ attrEOG
}

// BOS returns the beginning-of-sequence token, -1 if there is none.
func (v *Vocab) BOS() Token { return v.bos }

// AddBOS reports whether the model's prompts begin with BOS.
func (v *Vocab) AddBOS() bool { return v.addBOS }

// Find returns the token whose text is piece; of several, the lowest.
func (v *Vocab) Find(piece string) (Token, bool) {
	t, ok := v.byPiece[piece]
	return t, ok
}

// Plain appends to list the tokens whose text is piece, except control tokens and tokens that end a generation.
func (v *Vocab) Plain(list []Token, piece string) []Token {
	first, ok := v.byPiece[piece]
	if !ok {
		return list
	}
	for _, t := range append([]Token{first}, v.twins[piece]...) {
		if v.attrs[t]&(AttrControl|AttrUnknown|attrEOG) == 0 {
			list = append(list, t)
		}
	}
	return list
}

// Size returns the number of tokens, which is also the number of logits in a row.
func (v *Vocab) Size() int { return len(v.attrs) }

// SpecialTokens returns the control and user-defined tokens. The caller must not modify the slice.
func (v *Vocab) SpecialTokens() []Token { return v.special }
