package checkpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

const (
	singleFile = "model.safetensors"
	indexFile  = "model.safetensors.index.json"

	maxHeader     = 100 << 20 // bytes, the limit of safetensors
	maxDimensions = 4         // of a tensor, ggml's limit
)

// dtypes has the element types that a checkpoint may have, with their bytes.
var dtypes = map[string]int64{"F32": 4, "F16": 2, "BF16": 2, "U8": 1}

// entryMembers are the members of a tensor's entry in the header. The header's __metadata__ has no effect.
var entryMembers = use("dtype", "shape", "data_offsets")

// stored is a tensor in a file of the checkpoint.
type stored struct {
	name   string
	dtype  string
	shape  []int64 // outermost first
	file   *os.File
	offset int64               // in file
	order  func(i int64) int64 // index in the file of element i of the outermost dimension; nil: i
}

// rowSize returns the bytes of one element of the outermost dimension.
func (s *stored) rowSize() int64 { return product(s.shape[1:]) * dtypes[s.dtype] }

func product(list []int64) int64 {
	n := int64(1)
	for _, v := range list {
		n *= v
	}
	return n
}

// tensors has all tensors of a checkpoint by name.
type tensors struct {
	byName map[string]*stored
	files  []*os.File
}

func (t *tensors) close() {
	for _, f := range t.files {
		_ = f.Close() // only read
	}
}

// openTensors reads the headers of model.safetensors, or without it, of the files that the index names: as in
// transformers, the index may be left from an earlier save. The format is that of the safetensors library: the length
// of the JSON header in 8 bytes, the header, and the data to which its offsets refer.
func openTensors(dir string) (*tensors, error) {
	names := []string{singleFile}
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	switch err := readJSON(dir, indexFile, &index); {
	case isFile(filepath.Join(dir, singleFile)):
		index.Files = nil
	case err == nil:
		names = nil
		for tensor, name := range index.Files {
			if filepath.Base(name) != name {
				return nil, fmt.Errorf("%s: tensor %s is in %q, which is not a file of this directory", filepath.Join(dir, indexFile), tensor, name)
			}
			names = append(names, name)
		}
		slices.Sort(names)
		names = slices.Compact(names)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	t := &tensors{byName: map[string]*stored{}}
	for _, name := range names {
		if err := t.open(filepath.Join(dir, name)); err != nil {
			t.close()
			return nil, err
		}
	}
	for name := range index.Files {
		if t.byName[name] == nil {
			t.close()
			return nil, fmt.Errorf("%s: tensor %s is not in %s", filepath.Join(dir, indexFile), name, index.Files[name])
		}
	}
	return t, nil
}

func (t *tensors) open(path string) error {
	f, err := openRegular(path)
	if err != nil {
		return fmt.Errorf("%w; save the tensors as safetensors", err)
	}
	t.files = append(t.files, f)
	bad := func(format string, args ...any) error { return fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...)) }
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var size uint64
	if err := binary.Read(f, binary.LittleEndian, &size); err != nil || size > maxHeader || int64(size) > info.Size()-8 {
		return bad("it is damaged or cut off: its header does not fit")
	}
	text := make([]byte, size)
	if _, err := f.ReadAt(text, 8); err != nil {
		return bad("the header: %w", err)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(text, &header); err != nil {
		return bad("the header: %w", err)
	}
	delete(header, "__metadata__")
	var spans [][2]int64
	for name, raw := range header {
		var h struct {
			DType   string  `json:"dtype"`
			Shape   []int64 `json:"shape"`
			Offsets []int64 `json:"data_offsets"`
		}
		if err := entryMembers.read(raw, nil, &h); err != nil {
			return bad("tensor %s: %w", name, err)
		}
		if len(h.Offsets) != 2 || h.Offsets[0] < 0 {
			return bad("tensor %s: its entry is not one of safetensors", name)
		}
		s := &stored{name: name, dtype: h.DType, shape: h.Shape, file: f, offset: 8 + int64(size) + h.Offsets[0]}
		if err := s.check(h.Offsets[1]-h.Offsets[0], info.Size()); err != nil {
			return bad("tensor %s: %w", name, err)
		}
		spans = append(spans, [2]int64{h.Offsets[0], h.Offsets[1]})
		if t.byName[name] != nil {
			return bad("tensor %s is in another file of the checkpoint, too", name)
		}
		t.byName[name] = s
	}
	// As the library has it, tensors follow each other without gaps, up to the end of the file.
	slices.SortFunc(spans, func(a, b [2]int64) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	end := int64(0)
	for _, s := range spans {
		if s[0] != end {
			return bad("data_offsets: one tensor ends at %d, and the next one begins at %d", end, s[0])
		}
		end = s[1]
	}
	if rest := info.Size() - 8 - int64(size) - end; rest != 0 {
		return bad("data_offsets: %d bytes after the last tensor belong to none", rest)
	}
	return nil
}

// tie leaves one tensor for the embeddings and the output, as transformers does: unless both are there and differ.
func (t *tensors) tie() error {
	parts := map[string]*stored{}
	for name, s := range t.byName {
		parts[parse(name).part] = s
	}
	head, embeddings := parts["lm_head"], parts["model.embed_tokens"]
	switch {
	case head == nil:
		return nil
	case embeddings == nil:
		t.byName["model.embed_tokens.weight"] = head
	default:
		sums := map[string]bool{}
		for _, s := range []*stored{head, embeddings} {
			h := sha256.New()
			if _, err := io.Copy(h, io.NewSectionReader(s.file, s.offset, s.shape[0]*s.rowSize())); err != nil {
				return err
			}
			sums[string(h.Sum(nil))] = true
		}
		if len(sums) > 1 {
			return nil
		}
	}
	delete(t.byName, head.name)
	return nil
}

// check compares the bytes of a tensor with its type and shape, and with the size of its file.
// It accepts types that are not in dtypes; such tensors are not read.
func (s *stored) check(bytes, fileSize int64) error {
	elements := int64(1)
	for _, n := range s.shape {
		if n <= 0 || elements > math.MaxInt64/8/n {
			return fmt.Errorf("its shape is %v", s.shape)
		}
		elements *= n
	}
	size, known := dtypes[s.dtype]
	switch {
	case s.offset < 8 || bytes < 0 || known && bytes != elements*size:
		return fmt.Errorf("it has %d bytes for %v of %s", bytes, s.shape, s.dtype)
	case s.offset > fileSize-bytes:
		return errors.New("it ends after the file, which is cut off")
	case len(s.shape) > maxDimensions || len(s.shape) == 0:
		return fmt.Errorf("it has %d dimensions", len(s.shape))
	}
	return nil
}
