// Package coach is a scripted coach: an endpoint of OpenAI's chat completions
// without a model, with a plan for the house of household.py. It finds in the
// question how things stand, and answers with the right next decision as JSON.
// The same question always gets the same answer.
package coach

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
)

// Answer is the coach's answer to a question.
type Answer struct {
	Outcome  string   `json:"outcome"` // corrected or abandoned
	Why      string   `json:"why"`
	Point    string   `json:"reinjection_point_id"`
	Decision Decision `json:"decision"`
}

// Decision is a reply or tool calls.
type Decision struct {
	Say   string `json:"say"`
	Calls []Call `json:"tool_calls"`
}

// Call asks a robot to do something.
type Call struct {
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments"`
	Robot     string            `json:"target_robot_name"`
}

// What the coach looks for in a question. It reads the description of the house
// (House.__str__) under the name that the orchestrator gives it. It also reads the
// code, and the point where a correction can be put in. All three are in plain
// words, since the question is written by the agent server in its own form.
var (
	house = regexp.MustCompile(`(?s)house_now.{0,40}?The rover is in the (hall|kitchen|living room) and holds (nothing|the cup|the plate)\. ` +
		`The cupboard is (locked|shut|open)\. The cup is (in the cupboard|on the table|with the rover)\.`)
	lockCode = regexp.MustCompile(`code of the cupboard's lock is (\d{4})`)
	point    = regexp.MustCompile(`again-at-step-\d+`)
)

// Plan reads a question and answers it.
func Plan(question string) Answer {
	found := house.FindStringSubmatch(question)
	if found == nil {
		return abandoned("The question does not say how things stand in the house.")
	}
	room, holds, cupboard, cup := found[1], found[2], found[3], found[4]
	at := point.FindString(question)
	if at == "" {
		return abandoned("The question names no point where a correction can be put in.")
	}

	corrected := func(why string, calls ...Call) Answer {
		return Answer{Outcome: "corrected", Why: why, Point: at, Decision: Decision{Calls: calls}}
	}
	// One decision, not a plan: calls only stand together when they can start at the same moment.
	var rover []Call
	if room != "kitchen" {
		rover = append(rover, drive("kitchen"))
	}
	switch {
	case cup == "on the table":
		return Answer{Outcome: "corrected", Why: "The cup is where it should be. The agent only has to say so.", Point: at,
			Decision: Decision{Say: "The cup is on the table in the living room.", Calls: []Call{}}}
	case holds != "nothing" && room != "living room":
		return corrected("The rover holds "+holds+", which belongs into the living room.", drive("living room"))
	case holds != "nothing":
		return corrected("The rover holds "+holds+" and stands beside the table.", putDown())
	case cupboard == "locked":
		code := lockCode.FindStringSubmatch(question)
		if code == nil {
			return abandoned("The cupboard is locked, and the question does not give its code.")
		}
		return corrected("The cup is in the locked cupboard. The arm can unlock it with the code; the rover is needed there.",
			append([]Call{unlock(code[1])}, rover...)...)
	case cupboard == "shut":
		return corrected("The cupboard is not locked any more, but it is shut.", append([]Call{openCupboard()}, rover...)...)
	case room != "kitchen":
		return corrected("The cupboard is open, but the rover is not in the kitchen.", rover...)
	}
	return corrected("The rover stands before the open cupboard.", pickUpCup())
}

func abandoned(why string) Answer {
	return Answer{Outcome: "abandoned", Why: why, Decision: Decision{Calls: []Call{}}}
}

func drive(room string) Call { return Call{"go_to", map[string]string{"room": room}, "rover"} }

func unlock(code string) Call {
	return Call{"unlock", map[string]string{"furniture": "cupboard", "code": code}, "arm"}
}

func putDown() Call { return Call{"put_down", map[string]string{"furniture": "table"}, "rover"} }

func openCupboard() Call { return Call{"open", map[string]string{"furniture": "cupboard"}, "arm"} }

func pickUpCup() Call { return Call{"pick_up", map[string]string{"object": "cup"}, "rover"} }

// maxQuestion bounds a request's body.
const maxQuestion = 16 << 20

// request holds the fields of a chat completion request that the coach needs.
type request struct {
	Model    string `json:"model"`
	Messages []struct {
		Content string `json:"content"`
	} `json:"messages"`
}

// Handler serves POST /v1/chat/completions. It calls said for each answer.
func Handler(said func(Answer)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var req request
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion)).Decode(&req); err != nil {
			refuse(w, "the body is not a chat completion request: "+err.Error())
			return
		}
		var question strings.Builder
		for _, m := range req.Messages {
			question.WriteString(m.Content + "\n")
		}
		answer := Plan(question.String())
		said(answer)
		send(w, http.StatusOK, completion(req.Model, question.Len(), answer))
	})
	return mux
}

// completion is a chat completion with the answer as JSON. Tokens are reckoned as four characters.
func completion(model string, asked int, a Answer) map[string]any {
	text, _ := json.Marshal(a) //nolint:errchkjson // nothing in it can fail
	message := map[string]any{"role": "assistant", "content": string(text)}
	return map[string]any{
		"id": "chatcmpl-scripted", "object": "chat.completion", "created": 0, "model": model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": message}},
		"usage":   map[string]any{"prompt_tokens": asked / 4, "completion_tokens": len(text) / 4, "total_tokens": (asked + len(text)) / 4},
	}
}

// refuse answers as OpenAI's endpoints do when a request is wrong.
func refuse(w http.ResponseWriter, message string) {
	send(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error"}})
}

func send(w http.ResponseWriter, status int, answer map[string]any) {
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the caller has gone away
}
