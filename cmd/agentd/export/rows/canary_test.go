package rows

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// TestNoKeyOrHeaderReachesAnyColumn: every text of an input repeats the keys of a
// session's backends and the credentials of recorded requests.
func TestNoKeyOrHeaderReachesAnyColumn(t *testing.T) {
	const key, quoted, bearer, cookie, password = "sk-canary-1111", `canary"22\22`, "canary-bearer-3333", "canary-4444", "canary-5555"
	all := []string{key, quoted, bearer, cookie, password}
	inJSON := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	session := `{"method": "PUT", "path": "/magma/v1/coaching/sessions/run", "headers": {"Authorization": ["Bearer ` + bearer + `"], "Cookie": "a=1; session=` + cookie + `"},
		"body": {"backends": {"b": {"type": "openai", "endpoint": "http://user:` + password + `@127.0.0.1:1", "default_model": "m",
		"headers": {"Authorization": "Bearer ` + key + `", "X-Other": "` + inJSON.Replace(quoted) + `", "Content-Type": "application/json"}}}}, "status": 204}` + "\n"
	leak := "known: " + strings.Join(all, " and ")
	// One more time with escapes, as another program may write it.
	raw := inJSON.Replace(leak) + ` \u0073k-canary-1111`
	exchange := line("r", `{"history": ["LEAK"]}`, `{"x": "LEAK"}`, `, "outcomes": [{"outcome": "LEAK", "reward": 2}, {"reward": 1}], "run_id": "LEAK"`,
		candidate{output: `{"say": "", "tool_calls": [{"name": "go_to", "arguments": {"LEAK": ["LEAK"]}, "target_robot_name": "LEAK"}]}`, origin: "LEAK",
			generation: tokens + `, "reasoning": "LEAK", "seed": 1`, raw: "t"},
		candidate{output: `{"say": "LEAK"}`, origin: "model", generation: tokens, raw: "t"})
	exchange = strings.ReplaceAll(exchange, `"content": "Decide."`, `"content": "LEAK"`)
	exchange = strings.ReplaceAll(exchange, `"description":"Drive."`, `"description":"LEAK"`)
	exchange = strings.ReplaceAll(exchange, `"finish_reason": "stop", "model_version": "v2"`, `"finish_reason": "LEAK", "model_version": "LEAK"`)
	exchange = strings.ReplaceAll(exchange, "LEAK", raw)
	path := write(t, "a.jsonl", exchange+strings.ReplaceAll(session, "\n\t", " ")) // the session comes last: it is found before

	check := func(t *testing.T, found map[string]string, rows int, out []byte) {
		t.Helper()
		if rows == 0 || len(found) < 8 {
			t.Fatalf("%d rows with the columns %q", rows, slices.Collect(maps.Keys(found)))
		}
		reached := 0
		for name, text := range found {
			for _, secret := range append(all, "canary") {
				if strings.Contains(text, secret) {
					t.Errorf("the column %s holds %q: %s", name, secret, text)
				}
			}
			reached += strings.Count(text, redacted)
		}
		if reached < 8 {
			t.Errorf("the keys were in %d places only, so that the test shows little", reached)
		}
		if bytes.Contains(out, []byte("canary")) {
			t.Errorf("the file holds a key: %s", out)
		}
	}
	t.Run("chat", func(t *testing.T) { check2[chatRow](t, Chat, path, check) })
	t.Run("pairs", func(t *testing.T) { check2[pairRow](t, Pairs, path, check) })
	t.Run("rollouts", func(t *testing.T) { check2[rolloutRow](t, Rollouts, path, check) })
}

// check2 exports in both formats.
func check2[T any](t *testing.T, kind, path string, check func(*testing.T, map[string]string, int, []byte)) {
	var out bytes.Buffer
	if _, err := run(t, Config{Kind: kind, Format: JSONL}, &out, path); err != nil {
		t.Fatal(err)
	}
	rows, _ := rowsOf[T](t, Config{Kind: kind}, path)
	found := map[string]string{}
	for i := range rows {
		columns(reflect.ValueOf(rows[i]), "", found)
	}
	check(t, found, len(rows), out.Bytes())

	out.Reset()
	if _, err := run(t, Config{Kind: kind, Format: Parquet}, &out, path); err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.Read[T](bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	found = map[string]string{}
	for i := range rows {
		columns(reflect.ValueOf(rows[i]), "", found)
	}
	check(t, found, len(rows), nil)
}

// TestTokensThatSpellAKeyAreLeftOut: they cannot be redacted.
func TestTokensThatSpellAKeyAreLeftOut(t *testing.T) {
	session := `{"method": "PUT", "path": "/v1/coaching/sessions/run", "body": {"backends": {"b": {"type": "ollama", "endpoint": "http://127.0.0.1:1", "default_model": "m", "headers": {"X-Key": "canary-1111"}}}}, "status": 422}` + "\n"
	path := write(t, "a.jsonl", session+line("r", "{}", "{}", "", candidate{output: call("hall"), origin: "model", generation: tokens, raw: "canary-1111"}))
	rows, s := rowsOf[rolloutRow](t, Config{Kind: Rollouts}, path)
	if len(rows) != 0 || s.Skipped["the tokens spell a key or a header"] != 1 {
		t.Errorf("%+v, %s", rows, s)
	}
}

func TestOnlyHeadersThatAreSecretAreRedacted(t *testing.T) {
	path := write(t, "a.jsonl", `{"method": "GET", "path": "/health", "headers": {"User-Agent": "python-requests", "Accept": "application/json"}}`+"\n"+
		`{"method": "PUT", "path": "/v1/coaching/sessions/r", "body": {"backends": {"b": {"type": "ollama", "endpoint": "http://127.0.0.1:1", "default_model": "m", "headers": {"X-Title": "household python-requests"}}}}, "status": 204}`+"\n"+
		line("r", "{}", "{}", "", candidate{output: `{"say": "python-requests asks for application/json"}`, origin: "model"}))
	rows, _ := rowsOf[chatRow](t, Config{Kind: Chat}, path)
	if len(rows) != 1 || strings.Contains(rows[0].Messages[2].Content, redacted) {
		t.Errorf("%+v", rows)
	}
}
