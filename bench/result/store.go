package result

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
)

// Extensions of the three files of a run.
const (
	extension = ".json"
	requests  = ".requests.jsonl"
	samples   = ".samples.jsonl"
)

// Paths of the three files of a result: FILE.json, FILE.requests.jsonl and
// FILE.samples.jsonl.
func Paths(path string) ([3]string, error) {
	base, ok := strings.CutSuffix(path, extension)
	if !ok || filepath.Base(base) == "." || base == "" || strings.HasSuffix(base, string(filepath.Separator)) {
		return [3]string{}, fmt.Errorf("got %q, want a file name that ends in %s", path, extension)
	}
	return [3]string{path, base + requests, base + samples}, nil
}

// Save writes a result with its records and samples: the result last, and each
// file whole or not at all.
func Save(path string, f *File, records []Record, states []Sample) error {
	paths, err := Paths(path)
	if err != nil {
		return err
	}
	body, err := f.Encode()
	if err != nil {
		return err
	}
	return errors.Join(
		writeFile(paths[1], func(w io.Writer) error { return WriteLines(w, records) }),
		writeFile(paths[2], func(w io.Writer) error { return WriteLines(w, states) }),
		writeFile(paths[0], func(w io.Writer) error { _, err := w.Write(body); return err }),
	)
}

// writeFile writes beside the file and puts it in its place when it is whole.
func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	buffered := bufio.NewWriter(f)
	err = errors.Join(write(buffered), buffered.Flush(), f.Chmod(fileMode), f.Close())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// fileMode of results, which hold no secret.
const fileMode = 0o644

// LoadFile reads one result.
func LoadFile(path string) (*File, error) {
	body, err := readFile(path)
	if err != nil {
		return nil, err
	}
	f, err := Decode(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	body, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(body) > maxFile {
		err = fmt.Errorf("%s: is larger than %d MiB, so it is no result of agentbench", path, maxFile>>20)
	}
	return body, err
}

// Full is a result with all that was measured.
type Full struct {
	*File
	Records []Record
	Samples []Sample
}

// LoadFull reads a result and the two files beside it.
func LoadFull(path string) (*Full, error) {
	paths, err := Paths(path)
	if err != nil {
		return nil, err
	}
	f, err := LoadFile(path)
	if err != nil {
		return nil, err
	}
	full := &Full{File: f}
	if full.Records, err = loadLines[Record](paths[1]); err != nil {
		return nil, err
	}
	full.Samples, err = loadLines[Sample](paths[2])
	return full, err
}

func loadLines[T Record | Sample](path string) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("a report needs all three files of a result: %w", err)
	}
	defer f.Close()
	list, err := ReadLines[T](f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// WriteLines writes one JSON object a line.
func WriteLines[T Record | Sample](w io.Writer, list []T) error {
	for i := range list {
		line, err := json.Marshal(&list[i], json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// ReadLines reads what WriteLines wrote, strictly. Errors name the line.
func ReadLines[T Record | Sample](r io.Reader) ([]T, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxLine)
	var list []T
	for n := 1; scanner.Scan(); n++ {
		if len(bytes.TrimSpace(scanner.Bytes())) == 0 {
			return nil, fmt.Errorf("line %d is empty", n)
		}
		var item T
		if err := json.Unmarshal(scanner.Bytes(), &item, strict); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := checkLine(&item); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		list = append(list, item)
	}
	return list, scanner.Err()
}

// checkLine refuses what no run gives.
func checkLine(item any) error {
	r, ok := item.(*Record)
	if !ok {
		return nil
	}
	switch {
	case r.Agent < 0 || r.Turn < 0 || r.Candidates < 0 || r.Distinct < 0 || r.Distinct > r.Candidates:
		return errors.New("agent, turn, candidates or distinct can't be")
	case r.Intended < 0 || r.Done < r.Intended:
		return errors.New("intended_ms or done_ms can't be")
	}
	for code, n := range r.Failures {
		if n < 0 || n > r.Candidates {
			return fmt.Errorf("%d failures %q of %d candidates can't be", n, code, r.Candidates)
		}
	}
	return nil
}
