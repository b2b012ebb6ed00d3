package llama

// #cgo noescape agd_sample
// #cgo noescape agd_sampler_force
// #include <stdlib.h>
// #include "native/api.h"
import "C"

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"unsafe"
)

// SamplerConfig configures a Sampler, which applies top-k, top-p, min-p and the temperature in this order.
type SamplerConfig struct {
	Temperature float32 // <= 0: the most probable token (greedy)
	TopP        float32 // outside (0, 1): off
	MinP        float32 // <= 0: off
	TopK        int     // <= 0: off
	Seed        uint32  // a draw depends on it and on the index of the token

	// Grammar is a GBNF text whose root rule is "root"; "" means unconstrained.
	Grammar string

	// SuppressControl excludes control tokens that do not end a generation, such as <|im_start|>. It does not exclude
	// tokens in Allow, nor those that the grammar names as tokens: <|channel|> or <[200005]> outside of quotes.
	SuppressControl bool
	Allow           []Token
	Suppress        []Token // never sampled
	Least           int     // tokens before one that ends a generation; not with a Grammar
	Score           bool    // compute probabilities for [Sampler.Score]; it changes no token
	Top             int     // with Score: number of tokens of [Sampler.Top]
	// Mask, with Score, is the most tokens that [Sampler.Mask] returns; 0 switches masks off. With masks the grammar is
	// applied before top-k, top-p and min-p, which may change a token.
	Mask int
}

// Sampler chooses the tokens of one sequence. One goroutine may use it at a time;
// different samplers can run in parallel.
type Sampler struct {
	model       *Model
	vocab       int
	constrained bool // there is a grammar
	lists       bool // Children can be called

	mu  sync.Mutex
	ptr *C.struct_agd_sampler
	// C arguments of Force, reused so that a call allocates nothing.
	forced [MaxForced]Token
	end    C.llama_token
}

// NewSampler makes a sampler for the model's vocabulary. The error is ErrGrammar
// for a grammar that is invalid or exceeds a limit.
func (m *Model) NewSampler(cfg SamplerConfig) (*Sampler, error) {
	for i, value := range []float32{cfg.Temperature, cfg.TopP, cfg.MinP} {
		if math.IsNaN(float64(value)) || math.IsInf(float64(value), 0) {
			return nil, fmt.Errorf("llama: sampler: %s is %v", []string{"temperature", "top-p", "min-p"}[i], value)
		}
	}
	for _, list := range [][]Token{cfg.Suppress, cfg.Allow} {
		for _, t := range list {
			if !m.vocab.valid(t) {
				return nil, fmt.Errorf("llama: sampler: token %d is not in the vocabulary of %d", t, m.vocab.Size())
			}
		}
	}
	if known := m.scanned.Load(); cfg.Grammar != "" && (known == nil || *known != cfg.Grammar) {
		grammar := cfg.Grammar
		if err := scanGrammar(grammar); err != nil {
			return nil, err
		}
		m.scanned.Store(&grammar) // requests with the same tools share it
	}
	if _, err := m.acquire(); err != nil {
		return nil, err
	}
	opts := C.struct_agd_sampler_options{
		temperature:      C.float(cfg.Temperature),
		top_p:            C.float(cfg.TopP),
		min_p:            C.float(cfg.MinP),
		top_k:            C.int32_t(min(max(cfg.TopK, 0), m.vocab.Size())),
		seed:             C.uint32_t(cfg.Seed),
		suppress_control: C.bool(cfg.SuppressControl),
		score:            C.bool(cfg.Score),
		top:              C.int32_t(min(max(cfg.Top, 0), m.vocab.Size())),
		mask:             C.size_t(max(cfg.Mask, 0)),
		least:            C.int32_t(min(max(cfg.Least, 0), math.MaxInt32)),
	}
	if cfg.Grammar != "" {
		opts.grammar = C.CString(cfg.Grammar)
		defer C.free(unsafe.Pointer(opts.grammar))
	}
	opts.suppress, opts.n_suppress = (*C.llama_token)(unsafe.Pointer(unsafe.SliceData(cfg.Suppress))), C.size_t(len(cfg.Suppress))
	opts.allow, opts.n_allow = (*C.llama_token)(unsafe.Pointer(unsafe.SliceData(cfg.Allow))), C.size_t(len(cfg.Allow))
	var cerr *C.char
	ptr := C.agd_sampler_new(m.vocab.index, opts, &cerr)
	if ptr == nil {
		m.release()
		return nil, native(ErrGrammar, takeString(cerr))
	}
	lists := cfg.Score && cfg.Temperature > 0
	return &Sampler{model: m, vocab: m.vocab.Size(), constrained: cfg.Grammar != "", lists: lists, ptr: ptr}, nil
}

// Sample chooses the next token from a row of logits and advances the grammar by it. The row must have the vocabulary's
// size and is not modified. The grammar checks the drawn token only; if it rejects that, another token is drawn from
// those that it admits. Errors are ErrGrammarDead if no token is admitted, ErrGrammar if the text so far is too
// ambiguous, and ErrCompute if the row has no finite number. Sample does not allocate Go memory.
func (s *Sampler) Sample(logits []float32) (Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(logits); err != nil {
		return -1, err
	}
	t := Token(C.agd_sample(s.ptr, (*C.float)(unsafe.Pointer(&logits[0]))))
	if t < 0 {
		return -1, s.failure(C.int(t))
	}
	return t, nil
}

// check refuses a row of logits of the wrong size, and every row after Close.
func (s *Sampler) check(logits []float32) error {
	if s.ptr == nil {
		return ErrClosed
	}
	if len(logits) != s.vocab {
		return fmt.Errorf("llama: sampler: a row of %d logits, the vocabulary has %d tokens", len(logits), s.vocab)
	}
	return nil
}

// Score has natural logarithms of a token's probability: Model by the softmax of the row, and Drawn in the
// sampler's draw, under its grammar and options. Drawn is 0 for a greedy sampler, and NaN if the grammar would
// need too much work for it.
type Score struct {
	Model float32
	Drawn float64 // in single precision without a mask
}

// Score returns the score of the token that Sample returned last, with SamplerConfig.Score.
func (s *Sampler) Score() Score {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return Score{}
	}
	score := C.agd_sampler_score(s.ptr)
	return Score{Model: float32(score.model), Drawn: float64(score.drawn)}
}

// Top appends the SamplerConfig.Top most probable tokens by the softmax of the last sampled row, best first,
// regardless of grammar and options.
func (s *Sampler) Top(list []Child) []Child {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return list
	}
	var first *C.struct_agd_child
	n := C.agd_sampler_top(s.ptr, &first)
	return append(list, unsafe.Slice((*Child)(unsafe.Pointer(first)), int(n))...)
}

// Mask returns the tokens from which Sample drew the last one, ascending: those that grammar and options allow.
// Score.Drawn is by the softmax of logits / temperature over them. It is nil if there are more than SamplerConfig.Mask.
func (s *Sampler) Mask() []Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return nil
	}
	var first *C.llama_token
	n := C.agd_sampler_mask(s.ptr, &first)
	if n < 0 {
		return nil
	}
	return slices.Clone(unsafe.Slice((*Token)(unsafe.Pointer(first)), int(n)))
}

// Accept advances the grammar by a token that Sample did not choose. The error is ErrRejected if
// the grammar does not admit it; then nothing changes. Without a grammar Accept does nothing.
func (s *Sampler) Accept(t Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return ErrClosed
	}
	if !s.model.vocab.valid(t) {
		return fmt.Errorf("llama: accept: token %d is not in the vocabulary of %d", t, s.vocab)
	}
	if rc := C.agd_sampler_accept(s.ptr, C.llama_token(t)); rc != 0 {
		return s.failure(rc)
	}
	return nil
}

// Force accepts the tokens that the grammar forces and appends them to list, at most MaxForced. They are the
// tokenizer's tokens of the forced text, up to the last token boundary that is the same for every continuation; Sample
// chooses the tokens after it. end is the end-of-generation token if it must come next, else -1. If the model has
// several such tokens, Sample chooses one, unless one is ChatML's <|im_end|>, which ends every turn. Without a grammar
// nothing is forced.
func (s *Sampler) Force(list []Token) (forced []Token, end Token, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return list, -1, ErrClosed
	}
	if !s.constrained {
		return list, -1, nil
	}
	n := C.agd_sampler_force(s.ptr, (*C.llama_token)(unsafe.Pointer(&s.forced[0])), MaxForced, &s.end)
	if n < 0 {
		return list, -1, s.failure(n)
	}
	return append(list, s.forced[:n]...), Token(s.end), nil
}

func (s *Sampler) failure(rc C.int) error {
	switch rc {
	case C.AGD_SAMPLE_DEAD:
		return ErrGrammarDead
	case C.AGD_SAMPLE_REJECTED:
		return ErrRejected
	case C.AGD_SAMPLE_AMBIGUOUS:
		return fmt.Errorf("%w: %s", ErrGrammar, C.GoString(C.agd_sampler_detail(s.ptr)))
	case C.AGD_SAMPLE_NOTFINITE:
		return fmt.Errorf("%w: the logits hold no finite number", ErrCompute)
	default:
		return native(ErrCompute, C.GoString(C.agd_sampler_detail(s.ptr)))
	}
}

// Clone returns a copy of the sampler in the same state.
func (s *Sampler) Clone() (*Sampler, error) { return s.clone(false, 0) }

// CloneSeed is Clone with another seed. It is cheaper than to parse the grammar again for each candidate.
func (s *Sampler) CloneSeed(seed uint32) (*Sampler, error) { return s.clone(true, seed) }

func (s *Sampler) clone(reseed bool, seed uint32) (*Sampler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return nil, ErrClosed
	}
	if _, err := s.model.acquire(); err != nil {
		return nil, err
	}
	var cerr *C.char
	ptr := C.agd_sampler_clone(s.ptr, C.bool(reseed), C.uint32_t(seed), &cerr)
	if ptr == nil { // for lack of memory
		s.model.release()
		return nil, native(ErrAllocation, takeString(cerr))
	}
	return &Sampler{model: s.model, vocab: s.vocab, constrained: s.constrained, lists: s.lists, ptr: ptr}, nil
}

// Close frees the sampler.
func (s *Sampler) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ptr == nil {
		return ErrClosed
	}
	C.agd_sampler_free(s.ptr)
	s.ptr = nil
	s.model.release()
	return nil
}
