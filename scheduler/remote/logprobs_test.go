package remote

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestLogprobsComeFromEnginesThatHaveThem(t *testing.T) {
	for api, want := range map[string]string{APIVLLM: "[-1 -2 -3]", APILlamaServer: "[-1 NaN -3]"} {
		t.Run(api, func(t *testing.T) {
			f := newFake(t, api)
			e := started(t, f)
			if reason := e.NoLogprobs(); reason != "" {
				t.Errorf("refused: %s", reason)
			}
			r := request(2)
			if plain, err := e.Generate(t.Context(), r); err != nil || plain.Completions[0].Scores != nil {
				t.Fatalf("without scores: %+v, %v", plain, err)
			}
			r.Scores = true
			got, err := e.Generate(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			for i, c := range got.Completions {
				var list []float32
				for _, s := range c.Scores {
					list = append(list, s.Logprob)
					if s.Forced || s.Drafted || !math.IsNaN(s.Masked) {
						t.Errorf("completion %d tells more than its engine: %+v", i, s)
					}
				}
				if fmt.Sprint(list) != want || !c.OnlyLogprobs || c.StopToken != 256 {
					t.Errorf("completion %d: %v, want %s; %+v", i, list, want, c)
				}
			}
		})
	}
}

func TestMissingLogprobsNameTheField(t *testing.T) {
	for _, api := range []string{APIVLLM, APILlamaServer} {
		t.Run(api, func(t *testing.T) {
			f := newFake(t, api)
			f.noLogprobs = true
			r := request(1)
			r.Scores = true
			if got, err := started(t, f).Generate(t.Context(), r); err == nil || !strings.Contains(err.Error(), "leave logprobs out of extra_keys.return") {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestSGLangRefusesLogprobs(t *testing.T) {
	if reason := started(t, newFake(t, APISGLang)).NoLogprobs(); !strings.Contains(reason, "sglang") {
		t.Errorf("reason %q", reason)
	}
}
