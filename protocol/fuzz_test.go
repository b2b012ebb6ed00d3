package protocol

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// codec is a decoder with what must hold of all that it accepts.
type codec struct {
	name string
	// reencode decodes a body, encodes the result and checks its rules.
	reencode func(body []byte) (encoded []byte, err error)
}

// codecOf makes a codec; check may be nil.
func codecOf[T appender](name string, decode func([]byte) (T, error), check func(T) error) codec {
	return codec{name, func(body []byte) ([]byte, error) {
		v, err := decode(body)
		if err != nil {
			return nil, err
		}
		if check != nil {
			if err := check(v); err != nil {
				return nil, errors.New("decoded, but does not validate: " + err.Error())
			}
		}
		return v.AppendJSON(nil), nil
	}}
}

func validDecision(d *AgentDecision) error {
	var v validator
	v.output(&AgentOutput{RequestID: "r", Status: StatusCompleted, Memory: emptyObject, Output: d}, nil)
	return v.err()
}

var codecs = []codec{
	codecOf("AgentRequest", DecodeAgentRequest, nil),
	codecOf("AgentOutputs", func(b []byte) (AgentOutputs, error) { return DecodeAgentOutputs(b) }, func(o AgentOutputs) error {
		for i := range o {
			var v validator
			if v.output(&o[i], nil); v.err() != nil {
				return v.err()
			}
		}
		return nil
	}),
	codecOf("AgentDecision", DecodeAgentDecision, validDecision),
	codecOf("AgentInfo", DecodeAgentInfo, nil),
	codecOf("AgentHealth", DecodeAgentHealth, nil),
	codecOf("CoachingSessionConfig", DecodeCoachingSessionConfig, func(c *CoachingSessionConfig) error {
		if !c.Equal(c) {
			return errors.New("not equal to itself")
		}
		return nil
	}),
	codecOf("SpecializedCoachingRequest", DecodeSpecializedCoachingRequest, nil),
	codecOf("SpecializedCoachingResponse", DecodeSpecializedCoachingResponse, func(r *SpecializedCoachingResponse) error {
		req := &SpecializedCoachingRequest{RequestID: r.RequestID}
		for _, p := range r.Proposals {
			req.ReinjectionPoints = append(req.ReinjectionPoints, ReinjectionPoint{ID: p.ReinjectionPointID})
		}
		return r.Validate(req)
	}),
	codecOf("CoachingError", func(b []byte) (*CoachingError, error) { return DecodeCoachingError(b) }, nil),
	codecOf("CoachingDiagnosis", func(b []byte) (*CoachingDiagnosis, error) { return DecodeCoachingDiagnosis(b) }, nil),
	codecOf("Correction", func(b []byte) (Correction, error) { return DecodeCorrection(b) }, func(c Correction) error {
		d := c.Corrected()
		return validDecision(&d)
	}),
	codecOf("InternalStep", func(b []byte) (*InternalStep, error) { return DecodeInternalStep(b) }, nil),
	codecOf("HumanCoachingRequest", DecodeHumanCoachingRequest, nil),
	codecOf("HumanCoachingResponse", DecodeHumanCoachingResponse, func(r *HumanCoachingResponse) error {
		return r.Validate(&HumanCoachingRequest{RequestID: r.RequestID, AllowForceSaveExample: true})
	}),
}

// check fails unless the decoder either reports problems, or accepts a body
// whose encoding it accepts again and encodes to the same bytes.
func (c codec) check(t *testing.T, body []byte) (accepted bool) {
	t.Helper()
	before := string(body)
	first, err := c.reencode(body)
	if string(body) != before {
		t.Fatalf("%s: decoding changed the body %q", c.name, before)
	}
	if err != nil {
		var ps Problems
		if !errors.As(err, &ps) {
			t.Fatalf("%s: %q: %v", c.name, before, err)
		}
		if !Raw(ps.AppendBody(nil)).IsValid() {
			t.Fatalf("%s: %q: the error body is not JSON: %s", c.name, before, ps.AppendBody(nil))
		}
		summary(t, ps)
		return false
	}
	second, err := c.reencode(first)
	if err != nil {
		t.Fatalf("%s: %q was accepted but its encoding %s is not: %v", c.name, before, first, err)
	}
	if string(first) != string(second) {
		t.Fatalf("%s: %q encodes to %s and then to %s", c.name, before, first, second)
	}
	return true
}

// seeds are bodies of every model, by file.
func seeds(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/reference/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no reference bodies: %v", err)
	}
	bodies := make(map[string][]byte)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		bodies[f] = b
	}
	return bodies
}

// FuzzDecode gives every body to every decoder. Run a longer search with
// go test -fuzz FuzzDecode ./protocol.
func FuzzDecode(f *testing.F) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	for _, s := range []string{
		``, `{}`, `[]`, `null`, `{"kind":"replace_decision","decision":{"say":"x"}}`, `{"kind":"replace_say","text":"\ud83d\ude00"}`,
		coachingWith("context", `{"diagnosis":[1.0]}`), coachingWith("stage", `"g"`), sessionWith(`"timeout":1e3`),
		`{"backends":[{"type":"local","model":"m"}]}`, inputWith(`"memory":{"a":[1e400,{"b":"\u0000"}]},"num_outputs":3`),
		`{"explanation":"e"}`, `{"code":"c","description":"d","details":{"a":1}}`, `{"say":"x"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, c := range codecs {
			c.check(t, body)
		}
	})
}

func fuzzOne(f *testing.F, name string) {
	for _, b := range seeds(f) {
		f.Add(b)
	}
	var target codec
	for _, c := range codecs {
		if c.name == name {
			target = c
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) { target.check(t, body) })
}

// The models that servers decode have targets of their own, which search them
// faster than FuzzDecode does.

func FuzzDecodeAgentRequest(f *testing.F)          { fuzzOne(f, "AgentRequest") }
func FuzzDecodeCoachingSessionConfig(f *testing.F) { fuzzOne(f, "CoachingSessionConfig") }
func FuzzDecodeCoachingRequest(f *testing.F)       { fuzzOne(f, "SpecializedCoachingRequest") }
func FuzzDecodeCorrection(f *testing.F)            { fuzzOne(f, "Correction") }
