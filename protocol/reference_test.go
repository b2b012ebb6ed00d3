package protocol

import (
	"path/filepath"
	"strings"
	"testing"
)

// Bodies of the public Python implementation's models must be accepted. The folders are its
// versions.
func TestReferenceBodiesAreAccepted(t *testing.T) {
	models := map[string]string{ // start of the file's name to codec
		"request": "AgentRequest", "outputs": "AgentOutputs", "health": "AgentHealth", "info": "AgentInfo", "session": "CoachingSessionConfig",
		"coaching-request": "SpecializedCoachingRequest", "coaching-response": "SpecializedCoachingResponse", "replace-say": "Correction",
		"internal-step": "InternalStep", "human-request": "HumanCoachingRequest", "human-response": "HumanCoachingResponse",
	}
	seen := make(map[string]bool)
	for file, body := range seeds(t) {
		t.Run(file, func(t *testing.T) {
			base := strings.TrimSuffix(filepath.Base(file), ".json")
			name, known := "", ""
			for start, model := range models {
				if strings.HasPrefix(base, start) && len(start) > len(known) {
					name, known = model, start
				}
			}
			if name == "" {
				t.Fatalf("no model for %s", file)
			}
			for _, c := range codecs {
				if c.name != name {
					continue
				}
				if !c.check(t, body) {
					_, err := c.reencode(body)
					t.Errorf("%s is rejected: %v", name, err)
				}
				seen[name] = true
			}
		})
	}
	for _, model := range models {
		if !seen[model] {
			t.Errorf("no body of %s was checked", model)
		}
	}
}

// Two forms of one value, with and without whitespace, escapes and defaults, decode equally. Raw
// JSON keeps its escapes, so values are compared in canonical form.
func TestReferenceFormsAgree(t *testing.T) {
	bodies := seeds(t)
	for a, b := range map[string]string{"request.json": "request-unset.json", "coaching-request.json": "coaching-request-python.json"} {
		for _, c := range codecs[:7] {
			x, errX := c.reencode(bodies["testdata/reference/2.0.0b3/"+a])
			y, errY := c.reencode(bodies["testdata/reference/2.0.0b3/"+b])
			if errX != nil || errY != nil {
				continue // another model
			}
			for _, v := range []*[]byte{&x, &y} {
				if err := (*Raw)(v).Canonicalize(); err != nil {
					t.Fatal(err)
				}
			}
			if string(x) != string(y) {
				t.Errorf("%s and %s decode to different values:\n%s\n%s", a, b, x, y)
			}
		}
	}
}
