package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// Sources are what is exported, in their order.
type Sources struct {
	list      []source
	secrets   secrets
	originals map[uint64]ref  // where the first answers of models to a situation are
	went      map[uint64]bool // the back of every situation
}

// source is a file or a list of situations.
type source interface {
	// each calls f for all situations, and found for all secrets.
	each(found secrets, f func(*Situation) error) error
	// load reads a situation again.
	load(at ref) (*Situation, error)
}

// ref is where a situation is.
type ref struct {
	source int   // index in Sources.list
	offset int64 // in its file
	index  int   // of the input in its exchange
}

// Open finds the sources at paths. A path is a file of exchanges, a graph of magma-gen, or a folder
// with such files and graphs.
func Open(paths []string) (*Sources, error) {
	s := &Sources{secrets: secrets{}, originals: map[uint64]ref{}, went: map[uint64]bool{}}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			s.list = append(s.list, &exchanges{path: path})
			continue
		}
		before := len(s.list)
		if err := s.folder(path); err != nil {
			return nil, err
		}
		if len(s.list) == before {
			return nil, fmt.Errorf("%s has neither .jsonl files nor a graph of magma-gen (config.json with generator_version); name another folder", path)
		}
	}
	return s, nil
}

// folder adds what is in a folder, in the order of names.
func (s *Sources) folder(path string) error {
	return filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			is, err := isGraph(file)
			if err != nil || !is {
				return err
			}
			s.list = append(s.list, &graph{path: file})
			return fs.SkipDir
		case strings.HasSuffix(file, ".jsonl"):
			s.list = append(s.list, &exchanges{path: file})
		}
		return nil
	})
}

// AddSituations adds situations that a function hands over, each time it is called.
func (s *Sources) AddSituations(each func(f func(*Situation) error) error) {
	s.list = append(s.list, situations(each))
}

// situations are handed over by a function. They name what they replaced themselves.
type situations func(f func(*Situation) error) error

func (s situations) each(_ secrets, f func(*Situation) error) error { return s(f) }
func (situations) load(ref) (*Situation, error)                     { return nil, errors.New("cannot be read again") }

// index reads all sources for what the rows of one need of others: secrets and, for pairs, what
// corrections replaced.
func (s *Sources) index(ctx context.Context, pairs bool) error {
	return s.walk(ctx, s.secrets, func(x *Situation) error {
		if !pairs {
			return nil
		}
		if x.back != 0 {
			s.went[x.back] = true
		}
		key := x.key()
		if _, there := s.originals[key]; !there && slices.ContainsFunc(x.Candidates, func(c Candidate) bool { return !c.corrects }) {
			s.originals[key] = x.at
		}
		return nil
	})
}

// each calls f for all situations after index.
func (s *Sources) each(ctx context.Context, f func(*Situation) error) error {
	return s.walk(ctx, secrets{}, func(x *Situation) error {
		for i := range x.Candidates {
			c := &x.Candidates[i]
			c.led = c.led || c.next != 0 && s.went[c.next]
		}
		return f(x)
	})
}

func (s *Sources) walk(ctx context.Context, found secrets, f func(*Situation) error) error {
	for i, source := range s.list {
		err := source.each(found, func(x *Situation) error {
			x.at.source = i
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(x)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// replaced are the candidates that a correction in a situation replaced.
func (s *Sources) replaced(x *Situation, correction *Candidate) ([]Candidate, error) {
	list := x.Replaced
	if len(list) == 0 {
		at, there := s.originals[x.key()]
		if !there {
			return nil, nil
		}
		original, err := s.list[at.source].load(at)
		if err != nil {
			return nil, err
		}
		list = original.Candidates
	}
	return slices.DeleteFunc(slices.Clone(list), func(c Candidate) bool {
		return c.corrects || c.Outcome == Success || s.went[c.next] && c.next != 0 ||
			correction.replaces != 0 && correction.replaces != c.id
	}), nil
}

// values reads the JSON values of a file one after the other, with their lines and offsets.
func values(path string, f func(raw protocol.Raw, line int, offset int64) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	count := &lineCounter{r: file, line: 1}
	d := jsontext.NewDecoder(count)
	for {
		raw, err := d.ReadValue()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s line %d: %w", path, count.at(errorOffset(d, err)), err)
		}
		offset := d.InputOffset() - int64(len(raw))
		line := count.at(offset)
		count.kept = d.InputOffset()
		if err := f(raw, line, offset); err != nil {
			return fmt.Errorf("%s line %d: %w", path, line, err)
		}
	}
}

// errorOffset is where a value is wrong.
func errorOffset(d *jsontext.Decoder, err error) int64 {
	at := d.InputOffset()
	if syntax := (*jsontext.SyntacticError)(nil); errors.As(err, &syntax) {
		rest := d.UnreadBuffer()
		rest = rest[min(max(0, syntax.ByteOffset-at), int64(len(rest))):]
		at = syntax.ByteOffset + int64(len(rest)-len(bytes.TrimLeft(rest, " \t\r\n")))
	}
	return at
}

// valueAt reads the value at an offset again.
func valueAt(path string, offset int64) (protocol.Raw, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	raw, err := jsontext.NewDecoder(file).ReadValue()
	if err != nil {
		return nil, fmt.Errorf("%s changed while it was read: %w", path, err)
	}
	return raw, nil
}

// lineCounter counts the lines of what passes it, and bounds values.
type lineCounter struct {
	r        io.Reader
	read     int64   // bytes
	kept     int64   // offset of the end of the last value
	newlines []int64 // offsets that are not counted yet
	line     int     // of the first byte after the counted ones
}

func (c *lineCounter) Read(p []byte) (int, error) {
	if c.read-c.kept > maxValue {
		return 0, fmt.Errorf("the value is larger than %d bytes", maxValue)
	}
	n, err := c.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			c.newlines = append(c.newlines, c.read+int64(i))
		}
	}
	c.read += int64(n)
	return n, err
}

// at is the line of an offset. Offsets must not fall.
func (c *lineCounter) at(offset int64) int {
	n, _ := slices.BinarySearch(c.newlines, offset)
	c.line += n
	c.newlines = slices.Delete(c.newlines, 0, n)
	return c.line
}
