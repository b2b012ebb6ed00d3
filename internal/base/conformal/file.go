package conformal

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// File is a calibration: thresholds for one model with one format of prompts.
type File struct {
	Model     string `json:"model"`  // version of the weights
	Format    string `json:"format"` // of prompts and calls, see agent.Ask
	Decisions int    `json:"decisions"`
	Rates     []Rate `json:"rates"`
}

// Limits of a file: its bytes, and its rates.
const (
	maxFile  = 1 << 20
	MaxRates = 100
)

// Text returns the file as JSON.
func (f *File) Text() ([]byte, error) {
	text, err := json.Marshal(f, jsontext.WithIndent(" "))
	return append(text, '\n'), err
}

// ReadFile reads and checks a calibration. The error names the file and the mistake.
func ReadFile(path string) (*File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, fmt.Errorf("%s is not a regular file of at most %d bytes; name one that agentd calibrate wrote", path, maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := new(File)
	if err = json.Unmarshal(text, f, json.RejectUnknownMembers(true)); err == nil {
		err = f.check()
	}
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		err = fmt.Errorf("%q is unknown or has a wrong value", wrong.JSONPointer)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a calibration, which agentd calibrate writes: %w", path, err)
	}
	return f, nil
}

func (f *File) check() error {
	switch {
	case f.Model == "":
		return errors.New("model is missing")
	case f.Format == "":
		return errors.New("format is missing")
	case len(f.Rates) == 0 || len(f.Rates) > MaxRates:
		return fmt.Errorf("rates has %d elements, want 1 to %d", len(f.Rates), MaxRates)
	}
	for i := range f.Rates {
		r := &f.Rates[i]
		switch {
		case !(r.Error > 0 && r.Error < 1):
			return fmt.Errorf("rates[%d].error is %g, want a number between 0 and 1", i, r.Error)
		case !(r.Threshold >= 0) || math.IsInf(r.Threshold, 1):
			return fmt.Errorf("rates[%d].threshold is %g, want a number of at least 0", i, r.Threshold)
		case r.N < Least(r.Error):
			return fmt.Errorf("rates[%d].n is %d, and an error rate of %g needs %d", i, r.N, r.Error, Least(r.Error))
		}
	}
	return nil
}

// Rate returns the threshold for an error rate. The error lists the rates in the file.
func (f *File) Rate(rate float64) (*Rate, error) {
	var known []string
	for i := range f.Rates {
		if math.Abs(f.Rates[i].Error-rate) < 1e-9 {
			return &f.Rates[i], nil
		}
		known = append(known, strconv.FormatFloat(f.Rates[i].Error, 'g', -1, 64))
	}
	return nil, fmt.Errorf("the calibration has no error rate %g, only %s; calibrate again for this one, or use one of them", rate, strings.Join(known, ", "))
}
