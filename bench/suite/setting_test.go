package suite

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentd/bench/ceiling"
	"agentd/bench/target"
	"agentd/bench/workload"
)

func TestTheBestSettingIsFoundAlsoWhenSomeFail(t *testing.T) {
	s := fakeSession(t, func(flags map[string]string) float64 {
		if flags["target"] != "llama-server" || flags["trace"] != "tune" {
			t.Errorf("%v", flags)
		}
		rate := 10.0
		for _, better := range []string{"-no-kvu", `"-fa","off"`, `"--parallel","4"`} {
			if strings.Contains(flags["args"], better) {
				rate *= 2
			}
		}
		if strings.Contains(flags["args"], `"--cache-ram","0"`) {
			rate++
		}
		switch {
		case flags["mode"] == "separate":
			rate += 5
		case strings.Contains(flags["args"], `"-kvu"`):
			return -1
		}
		return rate
	})
	m := &Measured{Workload: s.Workload}
	if err := s.tune(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	want := Setting{Slots: 4, Mode: target.ModeSeparate, Cache: ceiling.Cache{FlashAttention: "off"}, Host: hostReplaced}
	if s.best != want || m.Best != want {
		t.Errorf("got %s", s.best)
	}
	if want := (ceiling.Cache{Unified: true, FlashAttention: "off"}); m.Batched != want {
		t.Errorf("llama-batched-bench with %s", m.Batched)
	}
	var tried []string
	for _, x := range m.Tuning {
		line := x.Setting.String() + ": " + text(x.Decisions, "%.0f")
		if x.Error != "" {
			line += " " + x.Error
		}
		tried = append(tried, line)
	}
	if diff := cmp.Diff([]string{
		"-np 8 -no-kvu -fa auto, mode n: 20", "-np 8 -no-kvu -fa off, mode n: 40",
		"-np 8 -kvu -fa auto --no-cache-idle-slots, mode n: - it did not go well", "-np 8 -kvu -fa off --no-cache-idle-slots, mode n: - it did not go well",
		"-np 8 -no-kvu -fa off --no-cache-idle-slots, mode n: 40", "-np 8 -no-kvu -fa off --cache-ram 0, mode n: 41",
		"-np 8 -no-kvu -fa off --cache-ram 0, mode separate: 46",
		"-np 4 -no-kvu -fa off --no-cache-idle-slots, mode separate: 85", "-np 2 -no-kvu -fa off --no-cache-idle-slots, mode separate: 45",
	}, tried); diff != "" {
		t.Error(diff)
	}
}

func TestARoundVariesTheBestSettingSoFar(t *testing.T) {
	w := &Workload{Trace: workload.Options{Agents: 4, Candidates: 2}}
	one, each := ceiling.Cache{Unified: true, FlashAttention: "off"}, ceiling.Cache{FlashAttention: "off"}
	for _, test := range []struct {
		name  string
		round func(Setting) []Setting
		best  Setting
		want  []string
	}{
		{
			"a unified cache is not cleared", w.first, Setting{},
			[]string{"-np 8 -no-kvu -fa auto, mode n", "-np 8 -no-kvu -fa off, mode n", "-np 8 -kvu -fa auto --no-cache-idle-slots, mode n", "-np 8 -kvu -fa off --no-cache-idle-slots, mode n"},
		},
		{
			"idle slots are not copied, or there is no host memory", hosts, Setting{8, each, hostIdle, target.ModeN},
			[]string{"-np 8 -no-kvu -fa off --no-cache-idle-slots, mode n", "-np 8 -no-kvu -fa off --cache-ram 0, mode n"},
		},
		{
			"a unified cache may have won because the others copied idle slots", hosts, Setting{8, one, hostReplaced, target.ModeN},
			[]string{"-np 8 -no-kvu -fa off --no-cache-idle-slots, mode n", "-np 8 -kvu -fa off --cache-ram 0, mode n"},
		},
		{
			"fewer slots keep what they lose", w.fewer, Setting{8, one, hostNone, target.ModeN},
			[]string{"-np 4 -kvu -fa off --no-cache-idle-slots, mode n", "-np 2 -kvu -fa off --no-cache-idle-slots, mode n"},
		},
		{"fewer slots copy idle ones where that was better", w.fewer, Setting{4, each, hostIdle, target.ModeN}, []string{"-np 2 -no-kvu -fa off, mode n"}},
	} {
		var got []string
		for _, s := range test.round(test.best) {
			got = append(got, s.String())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

func TestAServerThatAnswersWithNoSettingIsAnError(t *testing.T) {
	s := fakeSession(t, func(map[string]string) float64 { return -1 })
	if err := s.tune(t.Context(), &Measured{Workload: s.Workload}); err == nil || !strings.Contains(err.Error(), "with no setting; the last one: it did not go well") {
		t.Errorf("got %v", err)
	}
}
