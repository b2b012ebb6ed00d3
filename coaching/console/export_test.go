package console

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"agentd/coaching/repair"
	"agentd/coaching/repair/prompt"
	"agentd/protocol"
)

// eachCorrected are the tasks that EachCorrected finds.
func eachCorrected(t *testing.T, path string) (list []*Corrected) {
	t.Helper()
	if err := EachCorrected(path, func(c *Corrected) error { list = append(list, c); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

// correctOne has two tasks of a console answered, with a correction and with none. It returns the
// task of the correction and its run.
func correctOne(t *testing.T, f *fixture) (id, run string) {
	t.Helper()
	request, err := protocol.DecodeSpecializedCoachingRequest([]byte(coachingRequest))
	if err != nil {
		t.Fatal(err)
	}
	corrected := ask(t.Context(), f.coach(), prompt.HumanRequest(repair.NewCase(request), "r1"))
	skipped := ask(t.Context(), f.coach(), prompt.HumanRequest(repair.NewCase(request), "r2"))
	f.eventually("both wait", func() bool { return f.connections() == 2 })
	byRequest := map[string]string{}
	for _, task := range f.tasks("open") {
		var detail taskDetail
		f.want(http.StatusOK, http.MethodGet, "/api/tasks/"+task.ID, nil, &detail)
		id, _ := protocol.Get(detail.Request, "request_id")
		name, _ := protocol.Text(id)
		byRequest[name] = task.ID
	}
	first, second := byRequest["r1"], byRequest["r2"]
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/"+first+"/answer", object{"claim": f.claimed(first, "Ann"), "status": "completed", "point": "p0", "decision": pick("cube")}, nil)
	f.want(http.StatusOK, http.MethodPost, "/api/tasks/"+second+"/answer", object{"claim": f.claimed(second, "Ann"), "status": "skipped", "reason": "no"}, nil)
	<-corrected
	<-skipped
	return first, request.RunID
}

// onlyCorrection checks what the export reads after correctOne.
func onlyCorrection(t *testing.T, list []*Corrected, id, run string) {
	t.Helper()
	if len(list) != 1 || list[0].ID != id || list[0].Person != "Ann" || list[0].Request.RunID != run || len(list[0].Proposals) != 1 ||
		list[0].Proposals[0].ReinjectionPointID != "p0" || !strings.Contains(string(list[0].Proposals[0].ExtraKeys), "cube") {
		t.Errorf("%+v", list)
	}
}

func TestCorrectedTasksAreReadAfterTheConsoleEnded(t *testing.T) {
	f := open(t)
	id, run := correctOne(t, f)
	if err := EachCorrected(f.path, func(*Corrected) error { return nil }); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("while the console runs: %v", err)
	}
	f.stop()
	onlyCorrection(t, eachCorrected(t, f.path), id, run)
	enough := errors.New("enough")
	if err := EachCorrected(f.path, func(*Corrected) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("the error of the caller became %v", err)
	}
}

func TestStoreThatIsMissingIsNotCreated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.db")
	for range 2 {
		if err := EachCorrected(path, nil); err == nil || !strings.Contains(err.Error(), "no such file") {
			t.Errorf("%v", err)
		}
	}
}
