package server

import (
	"net/http"
	"strings"
	"testing"
)

func TestTrainersRoutesAnswerAsVLLM(t *testing.T) {
	const text = "Success: LoRA adapter 'b' "
	for name, tc := range map[string]struct {
		method, path, body string
		err                error
		status             int
		want               string
	}{
		"a pause":                     {"POST", "/pause?mode=keep&clear_cache=false", "", nil, 200, `{"status":"paused"}`},
		"a pause by default":          {"POST", "/pause", "", nil, 200, `{"status":"paused"}`},
		"a pause of no mode":          {"POST", "/pause?mode=stop", "", nil, 400, `"param":"mode"`},
		"a pause with a wrong flag":   {"POST", "/pause?clear_cache=2", "", nil, 400, `"param":"clear_cache"`},
		"a pause that ended":          {"POST", "/pause?mode=wait", "", &Error{Code: CodeConflict, Detail: "was ended"}, 409, "was ended"},
		"a resume":                    {"POST", "/resume", "", nil, 200, `{"status":"resumed"}`},
		"no pause":                    {"GET", "/is_paused", "", nil, 200, `{"is_paused":false}`},
		"weights of a directory":      {"POST", "/update_weights", `{"weight_dir": "step_7"}`, nil, 200, `{"status":"ok"}`},
		"weights of no directory":     {"POST", "/update_weights", `{}`, nil, 400, `"param":"weight_dir"`},
		"weights of a null directory": {"POST", "/update_weights", `{"weight_dir": null}`, nil, 400, `"param":"weight_dir"`},
		"weights with a typo":         {"POST", "/update_weights", `{"weights_dir": "a"}`, nil, 400, `"param":"weights_dir"`},
		"weights of no use":           {"POST", "/update_weights", `{"weight_dir": "a"}`, &Error{Code: CodeInvalid, Detail: "another vocabulary"}, 400, `"param":"weight_dir"`},
		"weights while others load":   {"POST", "/update_weights", `{"weight_dir": "a"}`, &Error{Code: CodeConflict, Detail: "being loaded"}, 409, "being loaded"},
		"too little memory":           {"POST", "/update_weights", `{"weight_dir": "a"}`, &Error{Code: CodeNoMemory, Detail: "needs 9 MB"}, 507, "needs 9 MB"},
		"weights over NCCL":           {"POST", "/update_weights", `{"update_info": {"names": []}}`, nil, 501, `"param":"update_info"`},
		"an adapter":                  {"POST", "/v1/load_lora_adapter", `{"lora_name": "b", "lora_path": "p"}`, nil, 200, text + "added successfully."},
		"an adapter of prime-rl":      {"POST", "/load_lora_adapter", `{"lora_name": "a", "lora_path": "p"}`, nil, 200, `{"status":"ok"}`},
		"an adapter that is loaded":   {"POST", "/v1/load_lora_adapter", `{"lora_name": "a", "lora_path": "p"}`, nil, 400, "set load_inplace to true"},
		"an adapter in place":         {"POST", "/v1/load_lora_adapter", `{"lora_name": "a", "lora_path": "p", "load_inplace": true}`, nil, 200, "added"},
		"an adapter without a path":   {"POST", "/v1/load_lora_adapter", `{"lora_name": "b"}`, nil, 400, `"param":"lora_path"`},
		"an adapter with a space":     {"POST", "/v1/load_lora_adapter", `{"lora_name": "a b", "lora_path": "p"}`, nil, 400, `"param":"lora_name"`},
		"an adapter with a path":      {"POST", "/v1/load_lora_adapter", `{"lora_name": "../b", "lora_path": "p"}`, nil, 400, `"param":"lora_name"`},
		"an adapter of a step":        {"POST", "/v1/load_lora_adapter", `{"lora_name": "Org/a:b@3", "lora_path": "p"}`, nil, 200, "'Org/a:b@3' added"},
		"an adapter of no use":        {"POST", "/v1/load_lora_adapter", `{"lora_name": "b", "lora_path": "p"}`, &Error{Code: CodeInvalid, Detail: "DoRA"}, 400, `"param":"lora_path"`},
		"an adapter in 3D":            {"POST", "/v1/load_lora_adapter", `{"lora_name": "b", "lora_path": "p", "is_3d_lora_weight": true}`, nil, 400, `"param":"is_3d_lora_weight"`},
		"a removed adapter":           {"POST", "/v1/unload_lora_adapter", `{"lora_name": "b", "lora_int_id": null}`, nil, 200, text + "removed successfully."},
		"an unknown adapter":          {"POST", "/v1/unload_lora_adapter", `{"lora_name": "z"}`, &Error{Code: CodeNotFound, Detail: "no adapter"}, 404, `"param":"lora_name"`},
		"no adapter":                  {"POST", "/v1/unload_lora_adapter", `{}`, nil, 400, `"param":"lora_name"`},
		"a cache in use":              {"POST", "/reset_prefix_cache", "", nil, 200, `{"success":false}`},
		"a cache by SkyRL":            {"POST", "/reset_prefix_cache", `{"reset_running_requests": false}`, nil, 200, `{"success":false}`},
		"a cache of what runs":        {"POST", "/reset_prefix_cache?reset_running_requests=true", "", nil, 400, `"param":"reset_running_requests"`},
		"nothing to abort":            {"POST", "/abort_requests", `{"request_ids": ["a"]}`, nil, 200, `{"aborted":0,"status":"aborted"}`},
		"all to abort":                {"POST", "/inference/v1/abort_requests", "", nil, 200, `{"aborted":0,"status":"aborted"}`},
		"ids that are no list":        {"POST", "/abort_requests", `{"request_ids": "a"}`, nil, 400, `"param":"request_ids"`},
		"a world":                     {"GET", "/get_world_size?include_dp=true", "", nil, 200, `{"world_size":1}`},
		"a version":                   {"GET", "/weight_info", "", nil, 200, `{"weight_version":"v"}`},
		"life":                        {"GET", "/liveness", "", nil, 200, `{"status":"ok"}`},
		"the end of a session":        {"POST", "/finish_session", `{"session_id": "s"}`, nil, 200, `{"status":"ok"}`},
		"NCCL":                        {"POST", "/init_weight_transfer_engine", `{"init_info": {}}`, nil, 501, "update_weights"},
		"sleep":                       {"POST", "/sleep?level=2", "", nil, 501, "keeps its weights in memory"},
	} {
		t.Run(name, func(t *testing.T) {
			s := withWeights(t, &fakeWeights{inferenceFunc: echo, err: tc.err})
			r := request{method: tc.method, path: tc.path, body: tc.body, header: map[string]string{"Authorization": "Bearer " + trainerToken}}
			w := r.do(t, s)
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) {
				t.Errorf("%d %s, want %d with %s", w.Code, w.Body, tc.status, tc.want)
			}
			if w.Code >= 400 && !strings.HasPrefix(w.Body.String(), `{"error":{"code":"`) {
				t.Errorf("not an error of OpenAI's form: %s", w.Body)
			}
			if w.Header().Get("Content-Length") == "" && !strings.HasPrefix(w.Body.String(), "Success") {
				t.Errorf("no Content-Length, which SkyRL's client needs")
			}
		})
	}
}

func TestTrainersNeedTheRightToChangeWeights(t *testing.T) {
	for path, changes := range map[string]bool{
		"/pause": true, "/resume": true, "/update_weights": true, "/v1/load_lora_adapter": true, "/load_lora_adapter": true, "/v1/unload_lora_adapter": true,
		"/reset_prefix_cache": true, "/abort_requests": true, "/sleep": true, "/start_weight_update": true, "/finish_session": false,
	} {
		s := withWeights(t, &fakeWeights{inferenceFunc: echo})
		for _, header := range []string{"", "Bearer " + readerToken, "Bearer x"} {
			w := request{method: "POST", path: path, body: `{}`, header: map[string]string{"Authorization": header}}.do(t, s)
			want := http.StatusUnauthorized
			if header == "Bearer "+readerToken {
				if want = http.StatusOK; changes {
					want = http.StatusForbidden
				}
			}
			if w.Code != want {
				t.Errorf("%s with %q: %d %s, want %d", path, header, w.Code, w.Body, want)
			}
		}
	}
}

// Clients of HTTP send NAME:TOKEN of a URL in the scheme Basic.
func TestTokenMayBeThePasswordOfAProgram(t *testing.T) {
	s := withWeights(t, &fakeWeights{inferenceFunc: echo})
	for name, tc := range map[string]struct {
		user, password, origin string
		status                 int
	}{
		"the token":             {"trainer", trainerToken, "", 200},
		"without a name":        {"", trainerToken, "", 200},
		"another token":         {"trainer", "x", "", 401},
		"the token as a name":   {trainerToken, "", "", 401},
		"from a browser's page": {"trainer", trainerToken, "https://example.com", 401},
	} {
		r, _ := http.NewRequest(http.MethodPost, "/resume", nil)
		r.SetBasicAuth(tc.user, tc.password)
		header := map[string]string{"Authorization": r.Header.Get("Authorization")}
		if tc.origin != "" {
			header["Origin"] = tc.origin
		}
		if w := (request{method: "POST", path: "/resume", header: header}).do(t, s); w.Code != tc.status {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, tc.status)
		}
	}
}

// A pause clears the cache as vLLM's does, and that is the only thing that it does besides.
func TestPauseClearsTheCacheUnlessItKeepsRequests(t *testing.T) {
	for path, want := range map[string]int{"/pause": 1, "/pause?mode=wait": 1, "/pause?mode=wait&clear_cache=false": 0, "/pause?mode=keep": 0, "/pause?mode=keep&clear_cache=true": 0} {
		f := &fakeWeights{inferenceFunc: echo}
		s := withWeights(t, f)
		w := request{method: "POST", path: path, header: map[string]string{"Authorization": "Bearer " + trainerToken}}.do(t, s)
		if w.Code != 200 || f.cleared != want || f.info.Paused == "" {
			t.Errorf("%s: %d %s, cleared %d times, paused %q", path, w.Code, w.Body, f.cleared, f.info.Paused)
		}
	}
}
