package synth

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"agentd/llama/internal/gguf"
)

// Adapter describes a LoRA adapter with random weights. It adds Alpha/Rank times the product of two
// matrices, with Rank columns and Rank rows, to matrices of a model.
type Adapter struct {
	Rank  int
	Alpha float32
	Seed  uint64
	// Gain is about the size of the changes relative to the size of the matrices' values.
	Gain float64
	// Tensors has suffixes of the names of the matrices to change. Empty: all matrices of layers.
	Tensors []string
	// Norms adds changes of the layers' norms, which llama.cpp can't apply.
	Norms bool
}

// changes reports whether the adapter changes a tensor.
func (a *Adapter) changes(t *tensor) bool {
	if t.vector || t.expert || len(t.shape) != 2 {
		return false
	}
	if len(a.Tensors) == 0 {
		return strings.HasPrefix(t.name, "blk.")
	}
	return slices.ContainsFunc(a.Tensors, func(end string) bool { return strings.HasSuffix(t.name, end) })
}

// pair returns the tensors lora_a, of shape (inputs, rank), and lora_b, of shape (rank, outputs).
func (a *Adapter) pair(t *tensor) (down, up tensor) {
	inputs, outputs := t.shape[0], t.shape[1]
	down = tensor{name: t.name + ".lora_a", shape: []int{inputs, a.Rank}, dev: 1 / math.Sqrt(float64(inputs)), vector: true}
	up = tensor{name: t.name + ".lora_b", shape: []int{a.Rank, outputs}, dev: a.Gain * math.Sqrt(float64(a.Rank)) / float64(a.Alpha), vector: true}
	if t.fix != nil {
		up.fix = func(row int, values []float32) {
			if row == 0 { // a residual stream keeps its constant
				clear(values)
			}
		}
	}
	return down, up
}

// values returns the values that writeTensor would write.
func (t *tensor) values(seed uint64) []float32 {
	src := newSource(seed, t.name)
	width := t.shape[0]
	all := make([]float32, width*t.rows())
	for row := range t.rows() {
		t.draw(&src, row, all[row*width:(row+1)*width])
	}
	return all
}

// merge adds the adapter's changes to the tensors of a model.
func (a *Adapter) merge(list []tensor) {
	for i := range list {
		t := &list[i]
		if !a.changes(t) {
			continue
		}
		downT, upT := a.pair(t)
		down, up, own := downT.values(a.Seed), upT.values(a.Seed), t.fix
		t.fix = func(row int, values []float32) {
			if own != nil {
				own(row, values)
			}
			for k := range a.Rank {
				scale := a.Alpha / float32(a.Rank) * up[row*a.Rank+k]
				for j := range values {
					values[j] += scale * down[k*len(values)+j]
				}
			}
		}
	}
}

// WriteAdapter writes the file of an adapter for the model of spec. The file appears at path when it is complete.
func WriteAdapter(path string, spec Spec, a Adapter) error {
	_, list, err := spec.layout()
	if err != nil {
		return err
	}
	var pairs []tensor
	for i := range list {
		if a.changes(&list[i]) {
			down, up := a.pair(&list[i])
			pairs = append(pairs, down, up)
		} else if a.Norms && strings.HasSuffix(list[i].name, "_norm.weight") {
			pairs = append(pairs, list[i])
		}
	}
	if len(pairs) == 0 {
		return fmt.Errorf("synth: adapter: no matrix has a name that ends with one of %q", a.Tensors)
	}
	err = WriteFile(path, func(f *os.File) error {
		m := &gguf.Metadata{}
		m.Set("general.type", "adapter")
		m.Set("general.architecture", spec.Arch)
		m.Set("adapter.type", "lora")
		m.Set("adapter.lora.alpha", float64(a.Alpha))
		return writeFile(f, m, "f32", pairs, a.Seed)
	})
	if err != nil {
		return fmt.Errorf("synth: %w", err)
	}
	return nil
}
