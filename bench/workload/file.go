package workload

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// What a line must have, since a number that is missing reads as 0.
var (
	headerFields = []string{"version", "kind"}
	turnFields   = []string{"agent", "turn", "input", "candidates"}
)

// Write writes a trace as JSON lines: the header, then one turn a line. It
// refuses what Read would refuse.
func (t *Trace) Write(w io.Writer) error {
	if err := t.validate(); err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	err := writeLine(b, &t.Header)
	for i := 0; i < len(t.Turns) && err == nil; i++ {
		err = writeLine(b, &t.Turns[i])
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		return fmt.Errorf("the trace could not be written: %w", err)
	}
	return nil
}

// preserve keeps the bytes of inputs.
var preserve = jsontext.PreserveRawStrings(true)

// writeLine writes a value of a trace.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v, preserve)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Hash is the SHA-256, in hex, of what the trace asks and when: the same for every
// model that it was rendered with, and however it came about.
func (t *Trace) Hash() (string, error) {
	sum := sha256.New()
	if err := writeLine(sum, map[string]int{"version": t.Header.Version}); err != nil {
		return "", err
	}
	for i := range t.Turns {
		asked := t.Turns[i]
		asked.Prompt, asked.Tokens, asked.Grammar = "", nil, ""
		asked.Input = asked.Input.Clone()
		if err := asked.Input.Compact(); err != nil {
			return "", fmt.Errorf("line %d: input: %w", i+2, err)
		}
		if err := writeLine(sum, &asked); err != nil {
			return "", fmt.Errorf("line %d: %w", i+2, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Read reads a trace that Write or a Recorder wrote, strictly. Errors begin with
// the number of the line.
func Read(r io.Reader) (*Trace, error) { return readWithin(r, maxLine, maxBytes) }

// readWithin is Read with bounds for the bytes of one line and of all.
func readWithin(r io.Reader, maxLine, maxBytes int) (*Trace, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	t := new(Trace)
	c := checker{header: &t.Header}
	number, size := 0, 0
	for lines.Scan() {
		number++
		line := lines.Bytes()
		if size += len(line); size > maxBytes {
			return nil, fmt.Errorf("line %d: the file has more than %d bytes; record or generate less", number, maxBytes)
		}
		if err := t.readLine(line, number, &c); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: has more than %d bytes, so it is no line of a trace", number+1, maxLine)
	} else if err != nil {
		return nil, err
	}
	if number == 0 {
		return nil, errors.New("the file is empty; a trace begins with a header line")
	}
	return t, c.end()
}

func (t *Trace) readLine(line []byte, number int, c *checker) error {
	if number > 1 {
		var turn Turn
		if err := decode(line, &turn, turnFields); err != nil {
			return err
		}
		t.Turns = append(t.Turns, turn)
		return c.turn(&t.Turns[len(t.Turns)-1])
	}
	// A file of another version may have other fields.
	var about struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(line, &about); err == nil && about.Version > 0 && about.Version != Version {
		return fmt.Errorf("the trace has version %d, and this program reads version %d; use the program that wrote it, or generate or record it again", about.Version, Version)
	}
	if err := decode(line, &t.Header, headerFields); err != nil {
		return err
	}
	return t.Header.validate()
}

// decode reads one line into v.
func decode(line []byte, v any, required []string) error {
	if len(line) == 0 {
		return errors.New("is empty; remove it")
	}
	err := json.Unmarshal(line, v, json.RejectUnknownMembers(true))
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return fmt.Errorf("the field %s is unknown; fields of a turn and of the header have fixed names", semantic.JSONPointer)
	case errors.As(err, &semantic) && semantic.Err != nil:
		return fmt.Errorf("the field %s: %w", semantic.JSONPointer, semantic.Err)
	case errors.As(err, &semantic):
		return fmt.Errorf("the field %s can't be a JSON %s", semantic.JSONPointer, semantic.JSONKind)
	case err != nil:
		return fmt.Errorf("is not one JSON object: %w", err)
	}
	if protocol.Raw(line).Kind() != '{' { // null
		return errors.New("is not one JSON object")
	}
	for _, name := range required {
		if _, ok := protocol.Get(line, name); !ok {
			return fmt.Errorf("the field /%s is missing", name)
		}
	}
	return nil
}
