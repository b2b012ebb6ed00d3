package browser

import (
	"sync"
	"testing"
	"time"

	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"agentd/coaching/console"
)

func TestTwoPeopleRaceForOneTask(t *testing.T) {
	h := newHouse(t)
	ended := h.coach("failure.json")
	pages := map[string]*page{}
	for _, name := range []string{"Ann", "Bob"} {
		g := newPerson(t).open(h.url, desktop, high)
		g.until(pressable(`all(".queue-link")[0]`))
		g.shows("Nobody is working on this yet")
		g.press("Your name")
		g.write("Name", name)
		g.press("Continue")
		pages[name] = g
	}
	var both sync.WaitGroup
	for _, g := range pages {
		both.Go(func() { _, _ = g.try(`named("Work on this")?.click()`) })
	}
	both.Wait()

	const mine, theirs = "You are working on this.", " is working on it"
	for _, g := range pages {
		g.until(`/You are working on this\.|is working on it/.test(words(document.querySelector(".editor")))`)
	}
	winner, loser := "Ann", "Bob"
	if eval[bool](pages["Bob"], `words(document.querySelector(".editor")).includes("You are working on this.")`) {
		winner, loser = loser, winner
	}
	pages[winner].showsIn(".editor", mine)
	pages[loser].showsIn(".editor", winner+theirs)
	pages[loser].showsIn(".queue", winner+theirs)
	if eval[bool](pages[loser], `!!document.querySelector(".composer")`) {
		t.Error("the one who was slower can write all the same")
	}

	pages[winner].press("Reply")
	pages[winner].write("What the agent should say", "I open the door.")
	pages[winner].showsIn(".verdict", "Ready to send")
	pages[winner].press("Send")
	if _, say := corrected(t, receive(t, ended)); say != "I open the door." {
		t.Errorf("got %q", say)
	}
	pages[loser].showsIn(".editor", "By "+winner) // live
}

func TestReopenedPageResumesClaimAndDraft(t *testing.T) {
	h := newHouse(t)
	ended := h.coach("failure.json")
	ann := newPerson(t)
	g := ann.open(h.url, desktop, high)
	g.claim("Ann")
	g.press("pick_up")
	g.write("object", "wine glass")
	g.pressIn("grip", "gentle")
	g.showsIn(".saved", "Draft saved")
	g.close()

	g = ann.open(h.url, desktop, high)
	g.until(pressable(`all(".queue-link")[0]`))
	g.showsIn(".editor", "You are working on this.") // the claim goes on
	g.until(`control("object").value === "wine glass"`)
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	_, decision := corrected(t, receive(t, ended))
	want := `{"say":"","tool_calls":[{"name":"pick_up","arguments":{"object":"wine glass","grip":"gentle"},"target_robot_name":"arm"}]}`
	if decision != want {
		t.Errorf("got %s", decision)
	}
}

func TestDraftStaysWithItsTask(t *testing.T) {
	h := newHouse(t)
	h.post("foreign.json")
	ann := newPerson(t)
	g := ann.open(h.url, desktop, high)
	g.claim("Ann")
	g.press("Reply")
	g.write("What the agent should say", "Of before")
	g.showsIn(".saved", "Draft saved")
	g.close()

	h.stop() // the next console has new data and counts from 1 again
	h.options.Path += "2"
	h.clock.pass(time.Second)
	h.start()
	ended := h.post("foreign.json")
	g = ann.open(h.url, desktop, high)
	g.showsIn(".queue", "Format")
	kept := `Object.keys(localStorage).filter(k => /claim|draft/.test(k)).length`
	g.until(kept + ` === 0`)
	g.claim("")
	g.press("Reply")
	g.until(`control("What the agent should say").value === ""`)
	g.write("What the agent should say", "Of now")
	g.until(kept + ` === 2`)
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	receive(t, ended)
	g.until(kept + ` === 0`)
}

func TestLostClaimKeepsWorkAndDraft(t *testing.T) {
	h := newHouse(t)
	ended := h.coach("failure.json")
	ann := newPerson(t).open(h.url, desktop, high)
	ann.claim("Ann")
	ann.press("Reply")
	ann.write("What the agent should say", "I open the door")
	ann.showsIn(".saved", "Draft saved")

	h.clock.pass(console.DefaultClaim + time.Second) // Ann's computer slept
	bob := newPerson(t).open(h.url, desktop, high)
	bob.until(pressable(`all(".queue-link")[0]`))
	bob.shows("There is a draft to go on from")
	bob.take("Bob")
	bob.showsIn(".editor", "It goes on from Ann’s draft")
	bob.until(`control("What the agent should say").value === "I open the door"`)

	ann.write("What the agent should say", "Ann wrote on")
	ann.showsIn(".editor", "The task is no longer yours")
	ann.showsIn(".editor", "Bob is working on it")
	ann.until(`control("What the agent should say").value === "Ann wrote on"`)

	bob.write("What the agent should say", "I open the door first.")
	bob.showsIn(".verdict", "Ready to send")
	bob.press("Send")
	if _, say := corrected(t, receive(t, ended)); say != "I open the door first." {
		t.Errorf("got %q", say)
	}
	ann.showsIn(".editor", "By Bob")
	ann.until(`words(document.activeElement) === "Corrected"`)
	ann.showsIn("#announcer", "The task has ended: Corrected")
	ann.press("Copy what I wrote")
	ann.until(`document.querySelector(".text-box")?.textContent.includes("Ann wrote on") || announcer.textContent === "Copied"`)
	bob.until(`!named("Copy what I wrote")`) // he sent it
}

func TestPageSurvivesConsoleRestart(t *testing.T) {
	h := newHouse(t)
	ended := h.coach("failure.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.claim("Ann")
	g.press("Reply")
	g.write("What the agent should say", "Before")
	g.showsIn(".saved", "Draft saved")

	h.stop()
	g.shows("The console cannot be reached")
	g.write("What the agent should say", "Before and while it was away")
	g.showsIn(".saved", "Draft kept in this browser")
	g.showsIn(".verdict", "It cannot be checked now")

	h.start()
	g.until(`document.querySelector(".offline").hidden`)
	g.showsIn(".saved", "Draft saved")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	if _, say := corrected(t, receive(t, ended)); say != "Before and while it was away" {
		t.Errorf("got %q", say)
	}
}

func TestReleasedTaskIsFreeForOthers(t *testing.T) {
	h := newHouse(t)
	h.coach("failure.json")
	ann := newPerson(t).open(h.url, desktop, high)
	bob := newPerson(t).open(h.url, desktop, high)
	ann.claim("Ann")
	bob.until(pressable(`all(".queue-link")[0]`))
	bob.showsIn(".editor", "Ann is working on it")
	ann.press("Put back")
	ann.shows("Nobody is working on this yet")
	bob.shows("Nobody is working on this yet")
	bob.take("Bob")
	ann.showsIn(".editor", "Bob is working on it")
}

func TestTaskThatIsLeftWhileTakenIsNotRenewed(t *testing.T) {
	h := newHouse(t)
	h.coach("failure.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.until(pressable(`all(".queue-link")[0]`))
	g.shows("Nobody is working on this yet")
	g.until(`(() => {
		localStorage.setItem("agentd.name", "Ann");
		window.timers = new Set();
		const [start, stop, call] = [setInterval, clearInterval, fetch];
		window.setInterval = (...a) => { const id = start(...a); timers.add(id); return id; };
		window.clearInterval = (id) => { timers.delete(id); stop(id); };
		window.fetch = async (...a) => { if (a[0].endsWith("/claim")) await new Promise((go) => { window.go = go; }); return call(...a); };
		return true;
	})()`)
	g.press("Work on this")
	g.until(`!!window.go && !!(location.hash = "#/")`)
	g.shows("Pick a task")
	g.until(`go() ?? true`)
	g.until(`Object.keys(localStorage).some((k) => k.startsWith("agentd.claim."))`)
	if n := eval[int](g, `timers.size`); n != 0 {
		t.Errorf("%d claims are renewed", n)
	}
}

func TestListReadBeforeTheAnswerChangesNothing(t *testing.T) {
	h := newHouse(t)
	ended := h.coach("failure.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.claim("Ann")
	g.press("Reply")
	g.until(`(() => {
		const call = fetch;
		window.fetch = async (...a) => {
			const answer = await call(...a);
			if (a[0].endsWith("?state=open")) await new Promise((go) => { window.go = go; });
			return answer;
		};
		return true;
	})()`)
	g.write("What the agent should say", "I open the door")
	g.until("!!window.go")
	g.showsIn(".verdict", "Ready to send")
	g.press("Send")
	receive(t, ended)
	g.showsIn(".workplace", "Corrected")
	g.until(`(go(), !(window.go = null))`)
	h.coach("failure.json")
	g.until(`!!window.go`)
	g.showsIn(".workplace", "Corrected")
}

func TestWithdrawnTaskIsShown(t *testing.T) {
	h := newHouse(t)
	h.coach("failure.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.claim("Ann")
	if err := h.sessions().CloseSession(t.Context(), "home-7-evening"); err != nil {
		t.Fatal(err)
	}
	g.showsIn(".editor", "Withdrawn")
	g.until(`words(document.activeElement) === "Withdrawn"`)
	g.showsIn("#announcer", "The task has ended: Withdrawn")
	g.until(`all(".queue li").length === 0`)
}

func TestPeopleLogInWithToken(t *testing.T) {
	h := newHouse(t, func(o *console.Options) { o.Tokens = []string{"open-sesame-open-sesame"} })
	h.coach("failure.json")
	g := newPerson(t).open(h.url, desktop, high)
	g.write("Access token", "wrong")
	g.press("Log in")
	g.shows("This token is not known here")
	g.write("Access token", "open-sesame-open-sesame")
	g.press("Log in")
	g.showsIn(".queue", "The wine glass")
	g.press("Log out")
	g.shows("Access token")
}

func TestTwoPagesOfOneBrowserShareNoClaim(t *testing.T) {
	t.Run("with locks", func(t *testing.T) { sharesNoClaim(t, "") })
	t.Run("without TLS", func(t *testing.T) { sharesNoClaim(t, "delete Navigator.prototype.locks") })
}

func sharesNoClaim(t *testing.T, before string) {
	t.Helper()
	h := newHouse(t)
	h.coach("failure.json")
	ann := newPerson(t)
	open := func() *page {
		g := ann.open("about:blank", desktop, high)
		if _, err := chromedp.Call(g.ctx, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: before}); err != nil {
			t.Fatal(err)
		}
		if err := chromedp.Do(g.ctx, chromedp.Navigate(h.url)); err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := open()
	first.claim("Ann")
	second := open()
	second.until(pressable(`all(".queue-link")[0]`))
	second.showsIn(".editor", "You are working on this in another window")
	if eval[bool](second, `!!document.querySelector(".composer")`) {
		t.Error("the second page can write as well")
	}
	first.press("Put back")
	second.take("")
	first.showsIn(".editor", "You are working on this in another window")
}

// TestManyPagesOfOneBrowserWork: a browser has six connections to a host.
func TestManyPagesOfOneBrowserWork(t *testing.T) {
	h := newHouse(t)
	ann := newPerson(t)
	pages := make([]*page, 7)
	for i := range pages {
		pages[i] = ann.open(h.url, desktop, high)
		pages[i].showsIn(".live", "Live")
	}
	h.coach("failure.json")
	for _, g := range pages {
		g.until(`document.title.startsWith("(1)")`)
	}
	pages[6].claim("Ann")
}
