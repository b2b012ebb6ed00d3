//go:build !race

package check

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Answers that faulty servers give.
const (
	candidate = `[{"output":{"say":"x"},"memory":{}}]`
	proposes  = `{"request_id":"ID","status":"corrected","proposals":[{"reinjection_point_id":"start","extra_keys":{}}]}`
	abandons  = `{"request_id":"ID","status":"abandoned","reason":"no"}`
)

// faults break one rule each, by its id. Without when, a fault is about the requests whose body names
// the rule. Rules about one answer, and tables of bodies, have faults of their own: see faultOf.
var faults = map[string]fault{
	"order/count":               {when: "check-batch", old: `,\{"request_id":"check-batch","source_id":7,"candidate_index":1.*`, new: "]"},
	"order/inputs":              {when: "check-batch", old: `"source_id":-1`, new: `"source_id":-2`},
	"order/index":               {when: "check-batch", old: `"candidate_index":1`, new: `"candidate_index":2`},
	"order/request-id":          {when: "check-batch", old: `"request_id":"check-batch"`, new: `"request_id":"batch"`},
	"order/id-largest":          {old: `"source_id":\d+`, new: `"source_id":9223372036854775800`},
	"order/request-id-unicode":  {when: `" order/request-id-unicode`, old: "é", new: "e"},
	"answer/form":               {when: "check-batch", old: `"status":"completed"`, new: `"status":"completed","extra":1`},
	"answer/status":             {when: "check-batch", old: `"status":"completed"`, new: `"status":"error"`},
	"answer/decision":           {when: "check-batch", old: `"tool_calls":\[\]`, new: `"tool_calls":[{"name":"n","arguments":{},"target_robot_name":"r"}]`},
	"answer/error":              {old: `"code":"invalid_tools"`, new: `"code":""`},
	"answer/after-refusals":     {when: `"request_id":"answer/after-refusals"`, status: http.StatusInternalServerError},
	"mode/deterministic":        {from: 2, old: `"output":\{"say":"`, new: `"output":{"say":"x`},
	"memory/kept":               {when: "check-memory", old: `"author":"USER"`, new: `"author":"SYSTEM"`},
	"memory/appended":           {when: "check-memory", old: `\{"author":"USER","content":"Open`, new: `{"author":"USER"},{"author":"USER","content":"Open`},
	"memory/instruction":        {when: "check-memory", old: `"Open it."`, new: `"Open"`},
	"memory/decision":           {when: "check-memory", old: `\\"ok\\"`, new: `\"no\"`},
	"memory/other-keys":         {when: "check-memory", old: `"a":null`, new: `"a":1`},
	"memory/rules":              {when: "check-memory", old: "kind", new: "rude"},
	"memory/turn-fields":        {when: "check-memory", old: `"mood":"x"`, new: `"mood":"y"`},
	"memory/bytes":              {when: "check-memory", old: `1\.50`, new: `1.5`},
	"memory/key-order":          {when: "check-memory", old: `\{"zebra":1.50,(.*?"a":null)`, new: `{$1,"zebra":1.50`},
	"memory/environment":        {old: `"author":"SYSTEM"`, new: `"author":"USER"`},
	"memory/nothing-invented":   {old: `"memory":\{`, new: `"memory":{"memory_list":[],`},
	"memory/failed":             {old: `"memory":\{`, new: `"memory":{"x":1,`},
	"memory/continued":          {old: `"history":\[`, new: `"history":[{"content":"x"},`},
	"memory/candidates":         {when: "check-batch", old: `\\"say\\": \\"I`, new: `\"say\": \"You`},
	"correction/say":            {old: `"say":"Better`, new: `"say":"Worse`},
	"correction/own-input":      {old: `"output":\{"say":".*?"`, new: `"output":{"say":"` + better + `"`},
	"correction/again":          {from: 2, old: `"say":"again"`, new: `"say":"once"`},
	"correction/no-trace":       {old: `"memory":\{`, new: `"memory":{"coaching":1,`},
	"correction/not-stale":      {from: 2, old: `"output":\{"say":".*?"`, new: `"output":{"say":"` + better + `"`},
	"correction/turn":           {old: `\\"turn 93c1`, new: `\"turn`},
	"correction/step":           {old: `"origin":"coaching"`, new: `"origin":"model"`},
	"correction/decision-say":   {old: `"say":"x"`, new: `"say":"y"`},
	"correction/decision-calls": {old: `"name":"open"`, new: `"name":"shut"`},
	"correction/decision-empty": {old: `"say":""`, new: `"say":"x"`},
	"correction/argument-bytes": {old: `"n":1\.50`, new: `"n":1.5`},
	"correction/call-turn":      {old: `\\"r9\\"`, new: `\"r8\"`},
	"correction/two-calls-turn": {old: `\\"action\\": \[`, new: `\"action\": [{},`},
	"correction/null":           {body: `[{"error":{"code":"invalid_coaching"}}]`},
	"correction/calls-over-say": {old: `"say":""`, new: `"say":"x"`},
	"correction/code":           {old: "invalid_coaching", new: "bad_coaching"},
	"correction/failed-memory":  {old: `"n":1`, new: `"n":2`},
	"coaching/no-points":        {old: `"status":"abandoned"`, new: `"status":"error"`},
	"coaching/kind-failure":     {old: `"status":"corrected"`, new: `"status":"done"`},
	"coaching/babble":           {body: proposes},
	"coaching/fault":            {body: proposes},
	"coaching/logs":             {old: `"logs":\[.*\]`, new: `"logs":[]`},
	"coaching/logs-off":         {old: `"reason":`, new: `"logs":[{"coaching_type":"failure","content":"x"}],"reason":`},
	"coaching/unavailable":      {body: `{"detail":"no"}`},
	"coaching/secrets":          {old: `"content":"`, new: `"content":"` + coachKey},
	"coaching/reinjection":      {when: `"request_id":"coaching/reinjection","inputs"`, old: `"say":"Which`, new: `"say":"What`},
	"human/completed":           {body: abandons},
	"human/skipped":             {body: proposes},
	"human/aborted":             {body: abandons},
	"human/task":                {when: "PUT", before: sendsBadTask},
	"concurrent/own-answers":    {from: 3, old: `"owner":"`, new: `"owner":"z`},
	"concurrent/order":          {from: 2, old: `"source_id":-1,`, new: `"source_id":-3,`},
	"concurrent/deterministic":  {when: `"concurrent/deterministic","inputs"`, from: 3, old: `"output":\{"say":"`, new: `"output":{"say":"x`},
	"concurrent/sessions":       {when: `"request_id":"concurrent-sessions-2"`, old: `sessions-2"`, new: `sessions-1"`},
	"cancel/next":               {when: `"cancel/next","inputs":[{"id":1,"instruction"`, status: http.StatusInternalServerError},
	"closing/answer":            {status: http.StatusInternalServerError},
	"closing/post":              {when: `"late closing/post"`, status: http.StatusOK},
	"closing/put":               {when: "PUT", from: 2, status: http.StatusTeapot},
	"memory/conversation":       {old: `"history":\[`, new: `"history":[{"content":"x"},`},
	"http/version-1.0":          {when: "GET /v1/info?old", body: "no"},
	"http/slow-client":          {status: http.StatusInternalServerError},
	"http/hundred":              {from: 100, status: http.StatusInternalServerError},
	"session/no-body":           {when: "PUT", status: http.StatusOK},
	"coaching/backend":          {when: "PUT", status: http.StatusTeapot},
	"coaching/proposal":         {old: coachSay, new: "What?"},
	"coaching/next-backend":     {body: abandons},
	"coaching/first-backend":    {body: abandons},
	"coaching/tries":            {body: "{}"},
	"coaching/again":            {from: 2, old: coachSay, new: "What?"},
	"always/sequence":           {when: `"input/content-empty"`, old: `"status":"completed"`, new: `"status":"completed","extra":1`},
	"always/memory":             {when: `"input/content-empty"`, old: `"author":"USER"`, new: `"author":"SYSTEM"`},
	"always/memory-bytes":       {when: `"input/content-empty"`, old: `"memory":\{`, new: `"memory":{"x":1,`},
	"always/calls":              {when: `"memory/called"`, old: `\\"destination\\"(.*)"destination"`, new: `\"d\"$1"d"`},
	"always/steps":              {when: `"input/content-empty"`, old: `"origin":"coaching"`, new: `"origin":"model"`},
	"always/type":               {when: "/v1/info?version", body: `{"agent_id":"a","agent_version":"1","capabilities":{}}`},
	"always/error":              {when: `"input/id-missing"`, old: `"loc":\["body"`, new: `"loc":[],"x":["body"`},
	"load/answers":              {when: `"request_id":"load l`, from: 3, old: `"owner":"`, new: `"owner":"z`},
}

// sendsBadTask sends a task without fields to the endpoint of a session with a person.
func sendsBadTask(body string) {
	endpoint := regexp.MustCompile(`"endpoint":"(.*?)"`).FindStringSubmatch(body)[1]
	resp, err := http.Post(endpoint+"/v1/coaching/requests", "application/json", strings.NewReader("{}"))
	if err == nil {
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}

// faultOf is the fault that breaks a rule.
func faultOf(t *testing.T, r rule) *fault {
	t.Helper()
	f, there := faults[r.id]
	body := strings.ReplaceAll(f.body, "ID", r.id)
	switch area, _, _ := strings.Cut(r.id, "/"); {
	case there:
	case area == "correction": // an invalid one that is applied
		body = candidate
	case len(r.steps) > 0:
		return broken(t, r)
	default:
		t.Fatalf("%s has no fault", r.id)
	}
	f.body = body
	switch f.when {
	case "":
		f.when = `"request_id":"` + r.id
	case "PUT", "DELETE":
		f.when += " " + sessionPath(runOf(r.id)) + "\n"
	}
	return &f
}

func TestEachFaultFailsExactlyItsRule(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.id, func(t *testing.T) {
			area, _, _ := strings.Cut(r.id, "/")
			f, only := faultOf(t, r), []string{area}
			switch {
			case area == "bound":
				only = []string{r.id} // no other rule sends such long bodies
			case area == "always": // with what asked
				only = append(only, "input", "info", "memory")
			case strings.HasPrefix(f.when, "check-"), area == "load": // an answer that rules share, or any rules
				only = append(only, "order", "answer", "memory")
			}
			failed, results := judged(t, f, r.needs, only...)
			if !slices.Equal(failed, []string{r.id}) {
				t.Errorf("%q failed: %s", failed, results[r.id].Seen)
			}
		})
	}
}
