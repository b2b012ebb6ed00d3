package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentd/llama/internal/gguf"
)

// IsDirectory reports whether path is a directory with a config.json.
func IsDirectory(path string) bool { return isFile(filepath.Join(path, "config.json")) }

// Files returns the paths of the files of a checkpoint or an adapter that affect its output.
func Files(dir string) []string {
	var list []string
	entries, _ := os.ReadDir(dir) // whoever reads the files gets the error
	for _, e := range entries {
		if slices.Contains([]string{".json", ".jinja", ".safetensors"}, filepath.Ext(e.Name())) {
			list = append(list, filepath.Join(dir, e.Name()))
		}
	}
	return list
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Write writes a checkpoint as a GGUF file. dir is a directory of Hugging Face's transformers with config.json,
// tokenizer.json, and model.safetensors or an index and its files. generation_config.json, tokenizer_config.json and
// chat_template.jinja are optional. Weights keep their type and bits, see keepsType. Errors name the file.
func Write(w io.Writer, dir string) error {
	g, list, done, err := describe(dir)
	if err != nil {
		return err
	}
	defer done()
	return g.Write(w, list)
}

// describe returns the metadata and the tensors of the GGUF file of a checkpoint. done closes the checkpoint's files.
func describe(dir string) (g *gguf.Metadata, list []gguf.Tensor, done func(), err error) {
	c, a, err := readConfig(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	t, err := openTensors(dir)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	if list, err = a.layout(c, t, dir); err != nil {
		return nil, nil, nil, err
	}
	g = &gguf.Metadata{}
	g.Set("general.architecture", a.name)
	g.Set("general.name", modelName(dir))
	g.Set("general.quantization_version", 2)
	g.Set("general.file_type", fileType(list))
	if a.name == gptOSS {
		c.ExpertWidth = c.FeedForward
	}
	err = c.metadata(g, a.name)
	if err == nil && a.name == linear {
		err = c.hybridMetadata(g)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", filepath.Join(dir, "config.json"), err)
	}
	return g, list, t.close, writeVocabulary(g, dir, &shape{VocabSize: c.VocabSize, BOS: c.BOS, EOS: c.EOS})
}

// modelName returns the name of a directory; in the cache of a hub, that of the repository.
func modelName(dir string) string {
	whole, err := filepath.Abs(dir)
	if err != nil {
		whole = filepath.Clean(dir)
	}
	if repository, ok := strings.CutPrefix(filepath.Base(filepath.Dir(filepath.Dir(whole))), "models--"); ok {
		return strings.ReplaceAll(repository, "--", "/")
	}
	return filepath.Base(whole)
}

// fileType returns the llama_ftype for the type of most weights.
func fileType(list []gguf.Tensor) int {
	types := map[uint32]int{gguf.F32: 0, gguf.F16: 1, gguf.BF16: 32, gguf.MXFP4: 38}
	elements := map[uint32]int64{}
	most := uint32(gguf.F32)
	for _, o := range list {
		elements[o.Kind] += o.Elements()
		if elements[o.Kind] > elements[most] {
			most = o.Kind
		}
	}
	return types[most]
}

// Open writes a checkpoint as a GGUF file InMemory. The weights are in memory once, since llama.cpp maps the file.
// Close frees it when the path is not open elsewhere. Open stops when ctx ends.
func Open(ctx context.Context, dir string) (*os.File, error) {
	return InMemory(ctx, func(w io.Writer) error { return Write(w, dir) })
}

// OpenShape is Open with a file that has holes in place of weights: right sizes, and nearly no memory.
func OpenShape(dir string) (*os.File, error) {
	g, list, done, err := describe(dir)
	if err != nil {
		return nil, err
	}
	done()
	size := int64(0)
	for i := range list {
		size += list[i].Size() + gguf.Padding(list[i].Size())
	}
	f, err := InMemory(context.Background(), func(w io.Writer) error { return g.WriteHead(w, list) })
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = f.Truncate(info.Size() + size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// OpenVocabulary is Open for the vocabulary only, see WriteVocabulary.
func OpenVocabulary(dir string) (*os.File, error) {
	return InMemory(context.Background(), func(w io.Writer) error { return WriteVocabulary(w, dir) })
}

// OpenAdapter is Open for an adapter, see WriteAdapter.
func OpenAdapter(ctx context.Context, dir string, base Base) (*os.File, error) {
	return InMemory(ctx, func(w io.Writer) error { return WriteAdapter(w, dir, base) })
}

// InMemory returns a file in memory (memfd) that write has written. Its name is a path that this process can open.
func InMemory(ctx context.Context, write func(io.Writer) error) (*os.File, error) {
	fd, err := unix.MemfdCreate("model.gguf", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	if err := write(stopped{ctx, f}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// stopped is a writer that fails once ctx has ended.
type stopped struct {
	ctx context.Context
	to  io.Writer
}

func (s stopped) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.to.Write(p)
}
