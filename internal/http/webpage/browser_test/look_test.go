package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/google/go-cmp/cmp"

	"agentd/protocol"
)

// key names the keys that tests press.
var key = struct {
	Enter, Tab, Left string
	Ctrl             chromedp.Modifier
}{kb.Enter, kb.Tab, kb.ArrowLeft, kb.ModifierCtrl}

func contains(s, part string) bool { return strings.Contains(s, part) }

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && cmp.Equal(x, y)
}

func TestPageFitsTheWindowAndControlsHaveNames(t *testing.T) {
	h := newHouse(t, agentServer(t, `{"say":"","tool_calls":[{"name":"open_door","arguments":{"furniture":"dishwasher","fully":true},"target_robot_name":"arm"}]}`))
	g := newPerson(t).open(h.url, 320, 844)
	look := func(where string) {
		t.Helper()
		for _, width := range []int64{1920, 1280, 1024, 768, 390, 320} {
			if err := chromedp.Do(g.ctx, chromedp.EmulateViewport(width, 844)); err != nil {
				t.Fatal(err)
			}
			g.until(fmt.Sprintf("innerWidth === %d", width))
			g.fits(fmt.Sprint(where, " at ", width))
			g.accessible(where)
		}
	}
	g.shows("Nothing waits for you")
	look("the empty state")
	h.coach("failure.json")
	g.showsIn(".queue", "The wine glass")
	look("the list")
	g.until(pressable(`all(".queue-link")[0]`))
	g.shows("Nobody is working on this yet")
	g.until(`all("details").forEach(d => d.open = true) ?? true`)
	g.until(`all(".internal").length === 4`)
	g.until(`all("details").forEach(d => d.open = true) ?? true`)
	look("a task with all folds open")
	g.take("Ann")
	look("the composer")
	g.press("put_in")
	for _, name := range []string{"slot", "pose", "avoid"} {
		g.pressIn("Arguments", name)
	}
	g.pressIn("avoid", "Add an item")
	g.showsIn(".verdict", "must be filled in")
	look("a large form")
	g.press("Ask the agent server")
	g.showsIn(".candidates", "open_door")
	look("suggestions")
	g.press("Give up")
	look("giving up")
	g.press("Keep working")
}

func TestColorsFollowTheSystem(t *testing.T) {
	h := newHouse(t)
	g := newPerson(t).open(h.url, desktop, high)
	g.shows("Nothing waits for you")
	ground := func(scheme string) string {
		g.prefer(scheme)
		return eval[string](g, `getComputedStyle(document.body).backgroundColor`)
	}
	if light, dark := ground("light"), ground("dark"); light == dark {
		t.Errorf("dark is as light as light: %s", dark)
	}
}

func TestTextOfAgentsIsNeverHTML(t *testing.T) {
	const attack = `</textarea><img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`
	h := newHouse(t)
	body := strings.ReplaceAll(string(fixture(t, "failure.json")), "wine glass", strings.ReplaceAll(attack, `"`, `\"`))
	req, err := protocol.DecodeSpecializedCoachingRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	h.coachRequest(req)
	g := newPerson(t).open(h.url, desktop, high)
	g.claim("Ann")
	g.until(`all("details").forEach(d => d.open = true) ?? true`)
	g.until(`all(".internal").length === 4`)
	if !eval[bool](g, `words(document.querySelector("h1")).includes("<img src=x") && all("main img, main script").length === 0 && !document.title.includes("owned")`) {
		t.Error("text became HTML")
	}
	if !eval[bool](g, `await fetch("/").then(r => r.headers.get("content-security-policy")).then(p => p.includes("default-src 'self'") && !p.includes("unsafe"))`) {
		t.Error("the page comes without its content security policy")
	}
}

func TestLongTrajectoryStaysUsable(t *testing.T) {
	h := newHouse(t)
	req, err := protocol.DecodeSpecializedCoachingRequest(fixture(t, "failure.json"))
	if err != nil {
		t.Fatal(err)
	}
	first := req.Trajectory[0]
	for id := range int64(300) {
		first.ID = 100 + id
		req.Trajectory = append(req.Trajectory, first)
	}
	input := &req.Trajectory[2].Input // of the target
	for i := range 150 {
		input.Tools = append(input.Tools, protocol.Raw(fmt.Sprintf(`{"name":"tool_%d","description":"None","parameters":{}}`, i)))
	}
	h.coachRequest(req)
	g := newPerson(t).open(h.url, 390, 844)
	g.claim("Ann")
	if steps := eval[int](g, `all(".steps > li").length`); steps != 305 { // with the point that is its own input
		t.Errorf("%d steps", steps)
	}
	g.until(`document.activeElement.matches("[aria-label='Filter the tools']")`)
	g.keys("TOOL_77")
	g.until(`all(".palette-tool").filter(visible).map(label).join() === "tool_77None"`)
	g.press("To the correction")
	g.until(`(() => { const r = document.querySelector("#editor").getBoundingClientRect(); return r.bottom > 0 && r.top < innerHeight; })()`)
}
