package browser

import (
	"testing"

	"agentd/protocol"
)

const desktop, high = 1280, 860

func TestTaskIsClaimedAndCorrectedInTheForm(t *testing.T) {
	h := newHouse(t)
	g := newPerson(t).open(h.url, desktop, high)
	g.shows("Nothing waits for you")
	g.shows("/v1/coaching/sessions/{run_id}") // how to connect an agent

	ended := h.coach("failure.json")
	g.showsIn(".queue", "The wine glass is in the dishwasher")
	g.until(`document.title.startsWith("(1)")`)
	g.claim("Ann")
	g.showsIn(".queue", "You are working on it")

	g.press("open_door")
	g.choose("furniture", "dishwasher")
	g.pressIn("fully", "yes")
	g.pressIn("Robot", "arm")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")

	point, decision := corrected(t, receive(t, ended))
	want := `{"say":"","tool_calls":[{"name":"open_door","arguments":{"furniture":"dishwasher","fully":true},"target_robot_name":"arm"}]}`
	if point != "before-put" || decision != want {
		t.Errorf("at %s: %s", point, decision)
	}
	g.showsIn(".editor", "Corrected")
	g.showsIn(".editor", "By Ann")
	h.coach("suboptimal.json")
	g.showsIn(".queue", "without a detour")
	g.press("Next task")
	g.shows("Nobody is working on this yet")
	g.press("Done")
	g.until(pressable(`all(".queue-link").find(l => l.getAttribute("href").startsWith("#/done/"))`))
	g.showsIn(".editor", "open_door")
	g.showsIn(".queue", "by Ann")
}

func TestPointIsPickedInTheTrajectory(t *testing.T) {
	h := newHouse(t)
	ended := h.coach("failure.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.until(pressable(`all(".queue-link")[0]`))
	g.shows("Nobody is working on this yet")
	g.until(pressable(`all(".step").find(s => words(s).includes("Step 4")).querySelector(".pick")`))
	g.take("Ann") // what was picked while reading stays picked
	g.until(`document.querySelector(".point input:checked").value === "after-stop"`)
	g.press("Reply")
	g.write("What the agent should say", "The door is closed.")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	if point, say := corrected(t, receive(t, ended)); point != "after-stop" || say != "The door is closed." {
		t.Errorf("at %s: %q", point, say)
	}
}

func TestInvalidArgumentsAreShownAndNotSent(t *testing.T) {
	h := newHouse(t)
	ended := h.coach("failure.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.claim("Ann")
	g.press("put_in")
	g.showsIn(".verdict", "container: must be filled in")
	g.write("container", "dishwasher")
	g.pressIn("Arguments", "slot")
	g.write("slot", "three")
	g.until(`words(field("slot")).includes("want integer") && control("slot").getAttribute("aria-invalid") === "true"`)
	g.write("slot", "99")
	g.until(`words(field("slot")).includes("want 12")`)
	g.press("Send")
	g.until(`document.activeElement === control("slot")`) // not sent: the focus moves to the wrong field
	select {
	case got := <-ended:
		t.Fatalf("it was sent: %+v", got)
	default:
	}

	g.write("slot", "3")
	g.pressIn("Arguments", "pose")
	g.pressIn("side", "left")
	g.pressIn("pose", "tilt")
	g.write("tilt", "-1.50")
	g.pressIn("Arguments", "avoid")
	g.pressIn("avoid", "Add an item")
	g.write("avoid 1", "mug")
	g.pressIn("avoid", "Add another")
	g.write("avoid 2", "plate")
	g.press("Move up")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	_, decision := corrected(t, receive(t, ended))
	want := `{"say":"","tool_calls":[{"name":"put_in","arguments":{"container":"dishwasher","slot":3,"pose":{"side":"left","tilt":-1.50},"avoid":["plate","mug"]},"target_robot_name":"arm"}]}`
	if decision != want {
		t.Errorf("got  %s\nwant %s", decision, want)
	}
}

func TestCandidatesArePickedAndEdited(t *testing.T) {
	h := newHouse(t, agentServer(t,
		`{"say":"","tool_calls":[{"name":"put_in","arguments":{"container":"dishwasher","slot":99},"target_robot_name":"arm"}]}`,
		`{"say":"Shall I open the door?","tool_calls":[]}`))
	ended := h.coach("failure.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.claim("Ann")
	g.press("Ask the agent server")
	g.showsIn(".candidates", "Shall I open the door?")
	g.showsIn(".candidates", "2 times") // two of three were the same
	g.press("Edit this")
	g.until(`control("slot").value === "99"`)
	g.write("slot", "9")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	_, decision := corrected(t, receive(t, ended))
	want := `{"say":"","tool_calls":[{"name":"put_in","arguments":{"container":"dishwasher","slot":9},"target_robot_name":"arm"}]}`
	if decision != want {
		t.Errorf("got %s", decision)
	}
}

func TestTaskIsSkippedOrAborted(t *testing.T) {
	for _, c := range []struct{ name, choice, status, shown string }{
		{"skipped: the repair is abandoned", "Skip", protocol.CoachingAbandoned, "Skipped"},
		{"aborted: coaching failed", "Abort", protocol.CoachingFailed, "Aborted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			ended := h.coach("suboptimal.json")
			g := newPerson(t).open(h.url, desktop, high)
			g.claim("Ann")
			g.press("Give up")
			g.press(c.choice)
			g.write("Why?", "The camera shows nothing.")
			g.press("Give it up")
			got := receive(t, ended)
			if got.err != nil || got.response.Status != c.status {
				t.Fatalf("%+v, %v", got.response, got.err)
			}
			if want := "The camera shows nothing."; !contains(got.response.Reason, want) {
				t.Errorf("reason %q lacks %q", got.response.Reason, want)
			}
			g.showsIn(".editor", c.shown)
		})
	}
}

func TestKeyboardAloneSuffices(t *testing.T) {
	h := newHouse(t)
	ended := h.coach("failure.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.showsIn(".queue", "The wine glass")
	g.tabTo(`document.activeElement.className === "queue-link"`)
	g.keys(key.Enter)
	g.shows("Nobody is working on this yet")
	g.tabTo(`document.activeElement.dataset.action === "claim"`)
	g.keys(key.Enter)
	g.shows("What is your name?")
	g.keys("Ann" + key.Enter)
	g.showsIn(".editor", "You are working on this")
	g.tabTo(`document.activeElement.dataset.mode === "tools"`)
	g.tabTo(`document.activeElement.innerText.startsWith("pick_up")`)
	g.keys(key.Enter)
	g.keys("red cube") // a space presses a button
	g.until(`control("object").value === "red cube"`)
	g.until(`all("[data-mode=tools]")[0].focus() ?? true`)
	g.keys(key.Left)
	g.tabTo(`document.activeElement.tagName === "TEXTAREA"`)
	g.keys("I will open the door first.")
	g.showsIn(".verdict", "Ready to send")
	g.keys(key.Enter, key.Ctrl)
	_, say := corrected(t, receive(t, ended))
	if want := "I will open the door first."; say != want {
		t.Errorf("got %q", say)
	}
	g.showsIn(".editor", "Corrected")
}

func TestTaskOfOtherAgentIsAnsweredWithText(t *testing.T) {
	h := newHouse(t)
	ended := h.post("foreign.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.claim("Ann")
	g.showsIn(".timeline", "no fences") // the prompt
	g.press("Text")
	g.write("The correction", `{"say": "hello", "action": {}}`)
	g.press("Keep this correction as an example")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	got := receive(t, ended)
	if got.Status != protocol.HumanCompleted || *got.Output != `{"say": "hello", "action": {}}` || !got.ForceSaveExample {
		t.Errorf("%+v", got)
	}
}

func TestToolsOfOtherAgentBecomeForms(t *testing.T) {
	h := newHouse(t)
	ended := h.post("foreign.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.claim("Ann")
	g.press("navigate_to")
	g.write("place", "kitchen")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	got := receive(t, ended)
	if want := `{"say": "", "action": {"arm": {"name": "navigate_to", "arguments": {"place": "kitchen"}}}}`; !sameJSON(*got.Output, want) {
		t.Errorf("got %s", *got.Output)
	}
}

func TestUnsureAgentGetsOneOfItsOptions(t *testing.T) {
	h := newHouse(t, agentServer(t))
	req, err := protocol.DecodeSpecializedCoachingRequest(fixture(t, "failure.json"))
	if err != nil {
		t.Fatal(err)
	}
	step := int64(0)
	req.TargetStepID, req.ReinjectionPoints = step, []protocol.ReinjectionPoint{{ID: "now", InputStepID: &step}}
	req.Trajectory = []protocol.TrajectoryStep{{
		Input:         req.Trajectory[0].Input,
		Error:         &protocol.AgentError{Code: "unsure", Message: "Choose one:\n- 70.0 %: the door", Component: "commander"},
		InternalSteps: []protocol.Raw{protocol.Raw(`{"input_elements":{"generation":{"candidate":{"probabilities":[0.30,0.7]}}}}`)},
	}}
	req.AdditionalInfo = protocol.Raw(`{"options":["unsure",{"say":"","tool_calls":[
		{"name":"open_door","arguments":{"furniture":"dishwasher","fully":true},"target_robot_name":"arm"}]}]}`)
	ended := h.coachRequest(req)
	g := newPerson(t).open(h.url, desktop, high)
	g.showsIn(".queue .badge", "Unsure")
	g.claim("Ann")
	g.until(`all("button").filter(b => /%$/.test(label(b))).map(b => label(b)).join("; ") ===
		"open_doorfurniture dishwasherfully truearm70.0 %; unsure30.0 %"`)
	g.until(`label(document.activeElement).endsWith("70.0 %")`)
	g.press("Reply")
	g.write("What the agent should say", "Neither")
	g.showsIn(".verdict", `choose one of ["unsure",{"say":"",`)
	g.press("open_door")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	if _, decision := corrected(t, receive(t, ended)); decision != `{"say":"","tool_calls":[{"name":"open_door","arguments":{"furniture":"dishwasher","fully":true},"target_robot_name":"arm"}]}` {
		t.Errorf("got %s", decision)
	}
}
