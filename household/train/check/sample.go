package main

import (
	"fmt"
	"math"
	"slices"

	"agentd/llama"
)

// sample is a prompt, with decisions in it, as the training program saw it.
type sample struct {
	// Texts are cut where the model begins and ends to write.
	Texts  [][]piece     `json:"texts"`
	IDs    []llama.Token `json:"ids"`
	Rows   []int         `json:"rows"` // tokens after which Logits are
	Logits [][]float32   `json:"logits"`
}

// piece is ["t", plain text] or ["s", special token].
type piece [2]string

// compare gives the largest difference of a logit.
func (s *sample) compare(m *llama.Model) (float64, error) {
	ids, err := s.tokenize(m.Vocab())
	if err != nil {
		return 0, err
	}
	for i := range max(len(ids), len(s.IDs)) {
		if i >= len(ids) || i >= len(s.IDs) || ids[i] != s.IDs[i] {
			from := max(min(i, len(ids), len(s.IDs))-5, 0)
			return 0, fmt.Errorf("token %d differs: %q here, %q in training", i,
				m.Vocab().Detokenize(ids[from:min(i+5, len(ids))], true), m.Vocab().Detokenize(s.IDs[from:min(i+5, len(s.IDs))], true))
		}
	}
	if len(s.Rows) != len(s.Logits) {
		return 0, fmt.Errorf("%d rows and %d lists of logits", len(s.Rows), len(s.Logits))
	}
	got, err := s.decode(m)
	if err != nil {
		return 0, err
	}
	return distance(got, s.Logits)
}

// distance is the largest difference, NaN if there is one.
func distance(got, want [][]float32) (float64, error) {
	worst := 0.0
	for i, row := range got {
		expected := want[i]
		if len(row) != len(expected) {
			return 0, fmt.Errorf("%d logits, expected %d", len(row), len(expected))
		}
		for j, e := range expected {
			worst = max(worst, math.Abs(float64(row[j]-e))) // max keeps NaN
		}
	}
	return worst, nil
}

// tokenize tokenizes as the server does: special tokens where the pieces say.
func (s *sample) tokenize(v *llama.Vocab) ([]llama.Token, error) {
	var ids []llama.Token
	for _, text := range s.Texts {
		for _, p := range text {
			if p[0] == "s" {
				id, ok := v.Find(p[1])
				if !ok {
					return nil, fmt.Errorf("%q is not a token", p[1])
				}
				ids = append(ids, id)
				continue
			}
			more, err := v.Tokenize(p[1], false, false)
			if err != nil {
				return nil, err
			}
			ids = append(ids, more...)
		}
	}
	return ids, nil
}

// decode gives llama.cpp's logits after the tokens at Rows.
func (s *sample) decode(m *llama.Model) ([][]float32, error) {
	c, err := m.NewContext(llama.SetContext(len(s.IDs)), llama.SetBatch(len(s.IDs)), llama.SetMaxOutputs(max(len(s.Rows), 1)),
		llama.SetKVType("f32"), llama.SetFlashAttention(false))
	if err != nil {
		return nil, err
	}
	defer c.Close() //nolint:errcheck // nothing is left to lose
	batch := make([]llama.Row, len(s.IDs))
	for i, id := range s.IDs {
		batch[i] = llama.Row{Token: id, Pos: llama.Pos(i), Output: slices.Contains(s.Rows, i)}
	}
	if err := c.Decode(batch); err != nil {
		return nil, err
	}
	rows := make([][]float32, 0, len(s.Rows))
	for _, r := range s.Rows {
		row, err := c.Logits(r)
		if err != nil {
			return nil, err
		}
		rows = append(rows, slices.Clone(row))
	}
	return rows, nil
}
