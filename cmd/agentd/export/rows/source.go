package rows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// Sources are what is exported, in their order.
type Sources struct {
	list    []source
	secrets secrets
	asked   map[uint64][]ref // the first situations with each key that have more than right corrections
	where   map[uint64]ref   // the situations of a graph's candidates, by their next
	went    map[uint64]bool  // the back of every situation
}

// source is a file or a list of situations.
type source interface {
	// each calls f for all situations, and collects secrets and what had to be skipped, by reason.
	each(found secrets, skipped map[string]int, f func(*Situation) error) error
	// load reads a situation again.
	load(at ref) (*Situation, error)
}

// ref is where a situation is.
type ref struct {
	source int   // index in Sources.list
	offset int64 // in its file
	index  int   // of the input in its exchange
}

func newSources() *Sources {
	return &Sources{secrets: secrets{}, asked: map[uint64][]ref{}, where: map[uint64]ref{}, went: map[uint64]bool{}}
}

// standardInput is the path of standard input.
const standardInput = "-"

// Open finds the sources at paths. A path is a file of exchanges or a pipe with them, "-" for
// standard input, a graph of magma-gen, or a folder with such files and graphs.
func Open(paths []string) (*Sources, error) {
	s := newSources()
	for _, path := range paths {
		if path == standardInput {
			path = "/dev/stdin"
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			if err := s.file(path, info); err != nil {
				return nil, err
			}
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

// file adds a file of exchanges. Sources are read twice, so a pipe is copied into a temporary file.
func (s *Sources) file(path string, info fs.FileInfo) error {
	x := &exchanges{path: path, name: path}
	s.list = append(s.list, x)
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.Mode()&fs.ModeNamedPipe == 0:
		return fmt.Errorf("%s is neither a file, a folder nor a pipe; name a file of exchanges", path)
	}
	pipe, err := os.Open(path)
	if err != nil {
		return err
	}
	defer pipe.Close()
	spool, err := os.CreateTemp("", "agentd-export-*.jsonl")
	if err != nil {
		return fmt.Errorf("%s is a pipe, which is read twice and needs a temporary file: %w", path, err)
	}
	// It has no name any more, so that nothing is left of it when the process ends.
	x.copy, x.path = spool, fmt.Sprintf("/proc/self/fd/%d", spool.Fd())
	if err := os.Remove(spool.Name()); err != nil {
		return err
	}
	if _, err := io.Copy(spool, pipe); err != nil {
		return fmt.Errorf("copying %s to a temporary file: %w", path, err)
	}
	return nil
}

// folder adds what is in a folder, in the order of names.
func (s *Sources) folder(path string) error {
	return filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			config, err := readGraphConfig(file)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || config.GeneratorVersion == "" {
				return err
			}
			s.list = append(s.list, &graph{path: file})
			return fs.SkipDir
		case strings.EqualFold(filepath.Ext(file), ".jsonl"):
			info, err := os.Stat(file)
			if err != nil || info.IsDir() {
				return err
			}
			return s.file(file, info)
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

func (s situations) each(_ secrets, _ map[string]int, f func(*Situation) error) error { return s(f) }
func (situations) load(ref) (*Situation, error)                                       { return nil, errors.New("cannot be read again") }

// Each calls f for every situation, and counts in skipped what had to be skipped, by reason.
func (s *Sources) Each(ctx context.Context, skipped map[string]int, f func(*Situation) error) error {
	return s.walk(ctx, secrets{}, skipped, f)
}

// index reads all sources for what the rows of one need of others: secrets and, for pairs, what
// corrections replaced.
func (s *Sources) index(ctx context.Context, pairs bool) error {
	return s.walk(ctx, s.secrets, map[string]int{}, func(x *Situation) error {
		if !pairs {
			return nil
		}
		if x.back != 0 {
			s.went[x.back] = true
		}
		key := x.Key()
		if len(s.asked[key]) < maxAsked && slices.ContainsFunc(x.Candidates, func(c Candidate) bool { return !c.corrects || c.faulty }) {
			s.asked[key] = append(s.asked[key], x.at)
		}
		for i := range x.Candidates {
			if x.scope != "" {
				s.where[x.Candidates[i].next] = x.at
			}
		}
		return nil
	})
}

// each calls f for all situations after index, and counts in skipped what had to be skipped.
func (s *Sources) each(ctx context.Context, skipped map[string]int, f func(*Situation) error) error {
	return s.walk(ctx, secrets{}, skipped, func(x *Situation) error {
		for i := range x.Candidates {
			x.Candidates[i].led = s.led(&x.Candidates[i])
		}
		return f(x)
	})
}

func (s *Sources) walk(ctx context.Context, found secrets, skipped map[string]int, f func(*Situation) error) error {
	for i, source := range s.list {
		err := source.each(found, skipped, func(x *Situation) error {
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

// led reports whether the run went on from a candidate.
func (s *Sources) led(c *Candidate) bool { return c.led || c.next != 0 && s.went[c.next] }

// replaced are the answers to the input of a situation that were wrong where a correction is right.
// answered is false if no other answer is known.
func (s *Sources) replaced(x *Situation, correction *Candidate) (list []Candidate, answered bool, err error) {
	if len(x.Replaced) > 0 {
		return x.Replaced, true, nil
	}
	key := x.Key()
	// A correction names the decision that was found faulty, which may be a correction itself. If
	// that decision had another input, the correction answers the input that followed.
	var seen []uint64
	for next := correction.replaces; next != 0 && !slices.Contains(seen, next); {
		at, there := s.where[next]
		if !there {
			break
		}
		situation, err := s.list[at.source].load(at)
		if err != nil {
			return nil, false, err
		}
		if situation.Key() != key {
			break
		}
		seen = append(seen, next)
		named := situation.Candidates[slices.IndexFunc(situation.Candidates, func(c Candidate) bool { return c.next == next })]
		if s.wrong(&named, correction) {
			list = append(list, named)
		}
		if next = named.replaces; !named.corrects {
			return list, true, nil
		}
	}
	for _, at := range s.asked[key] {
		situation, err := s.list[at.source].load(at)
		if err != nil {
			return nil, false, err
		}
		for i := range situation.Candidates {
			c := &situation.Candidates[i]
			if c.corrects && !c.faulty || slices.Contains(seen, c.next) {
				continue
			}
			answered = true
			if s.wrong(c, correction) {
				list = append(list, *c)
			}
		}
	}
	return list, answered || len(seen) > 0, nil
}

// wrong reports whether an answer was wrong where a correction is right: a diagnosis says so, or the
// run did not go on from it, or nothing that followed it reached the end of the stage.
func (s *Sources) wrong(c, correction *Candidate) bool {
	futile := c.reached != nil && !*c.reached && correction.reached != nil && *correction.reached
	return c.faulty || c.Outcome != Success && (futile || !s.led(c))
}

// values reads the JSON values of a file one after the other, with their lines and offsets. start is
// the offset of the first value, and line is its line. Errors call the file name. One may be a
// *brokenValue.
func values(path, name string, start int64, line int, f func(raw protocol.Raw, line int, offset int64) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	count := &lineCounter{r: io.NewSectionReader(file, start, math.MaxInt64), line: line}
	d := jsontext.NewDecoder(count)
	for {
		raw, err := d.ReadValue()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			line := count.at(d.InputOffset())
			wrong := fmt.Errorf("%s line %d: %w", name, count.at(errorOffset(d, err)), err)
			return &brokenValue{start: start + d.InputOffset(), line: line, err: wrong}
		}
		offset := d.InputOffset() - int64(len(raw))
		line := count.at(offset)
		count.kept = d.InputOffset()
		if err := f(raw, line, start+offset); errors.As(err, new(*os.PathError)) {
			return err // of another file, as of the rows
		} else if err != nil {
			return fmt.Errorf("%s line %d: %w", name, line, err)
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
	raw, err := jsontext.NewDecoder(io.NewSectionReader(file, offset, math.MaxInt64)).ReadValue()
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
