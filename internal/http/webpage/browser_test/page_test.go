package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// person is somebody with their own browser.
type person struct {
	t   *testing.T
	ctx context.Context
}

func newPerson(t *testing.T) *person {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return &person{t, ctx}
}

// page is an open page.
type page struct {
	t     *testing.T
	ctx   context.Context
	close func()
}

// open opens a page in a window of this size.
func (p *person) open(url string, width, height int64) *page {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	limited, cancelTime := context.WithTimeout(ctx, 3*patience)
	g := &page{t: p.t, ctx: limited}
	if err := chromedp.Do(limited, chromedp.EmulateViewport(width, height)); err != nil {
		p.t.Fatal(err)
	}
	watched := g.watch()
	g.close = sync.OnceFunc(func() {
		cancelTime()
		cancel()
		<-watched
	})
	p.t.Cleanup(g.close)
	if err := chromedp.Do(limited, chromedp.Navigate(url)); err != nil {
		p.t.Fatal(err)
	}
	return g
}

// watch fails the test for anything that the page's code does wrong. Refused
// calls are logged by browsers as well; they are not mistakes.
func (g *page) watch() <-chan struct{} {
	messages := chromedp.Console(g.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == "error" && m.Source != "network" {
				g.t.Errorf("the page: %s", m)
			}
		}
	}()
	return done
}

// helpers are known to all expressions that tests evaluate.
const helpers = `
const all = (s, within = document) => [...within.querySelectorAll(s)];
const visible = e => e.checkVisibility({ visibilityProperty: true }) && e.getClientRects().length > 0;
const label = e => (e.getAttribute("aria-label") ?? e.textContent).replace(/\s+/g, " ").trim();
const words = e => e ? e.innerText.replace(/\s+/g, " ") : "";
const root = () => document.querySelector("dialog[open]") ?? document;
const named = (text, within) => all("button, a, summary, label, [role=tab]", within ?? root()).filter(visible)
	.find(e => !e.disabled && label(e).startsWith(text));
const field = name => all("[data-path]").filter(visible).find(e => e.dataset.name === name)
	?? all("label", root()).filter(visible).find(e => label(e).startsWith(name))?.control;
const control = name => { const f = field(name); return f?.matches("input, textarea, select") ? f : f?.querySelector("input, textarea, select"); };
`

// prefer makes the system of the browser light or dark.
func (g *page) prefer(scheme string) {
	g.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}
	if _, err := chromedp.Call(g.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features}); err != nil {
		g.t.Fatal(err)
	}
}

// eval evaluates a JavaScript expression, with helpers.
func eval[T any](g *page, expression string) T {
	g.t.Helper()
	raw, err := g.try(expression)
	if err != nil {
		g.t.Fatalf("%s: %v", expression, err)
	}
	var value T
	if err := json.Unmarshal(raw, &value); err != nil {
		g.t.Fatalf("%s gave %s: %v", expression, raw, err)
	}
	return value
}

func (g *page) try(expression string) ([]byte, error) {
	script := fmt.Sprintf("(async () => { %s; return JSON.stringify((%s) ?? null); })()", helpers, expression)
	text, err := chromedp.Run(g.ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	return []byte(text), err
}

// until waits until an expression is true.
func (g *page) until(expression string) {
	g.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		raw, err := g.try(expression)
		if err == nil && string(raw) == "true" {
			return
		}
		if g.ctx.Err() != nil || time.Now().After(deadline) {
			text, _ := g.try(`words(document.body)`)
			g.t.Fatalf("never true: %s (last: %s, %v)\nthe page shows: %s", expression, raw, err, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// shows waits until the page shows a text.
func (g *page) shows(text string) {
	g.t.Helper()
	g.until(fmt.Sprintf("words(root() === document ? document.body : root()).includes(%q)", text))
}

// showsIn waits until the element of a selector shows a text.
func (g *page) showsIn(selector, text string) {
	g.t.Helper()
	g.until(fmt.Sprintf("words(document.querySelector(%q)).includes(%q)", selector, text))
}

// press clicks what is labelled with a text, once a mouse could: it is
// visible, and nothing covers it.
func (g *page) press(text string) {
	g.t.Helper()
	g.until(pressable(fmt.Sprintf("named(%q)", text)))
}

// pressIn presses inside of a field.
func (g *page) pressIn(name, text string) {
	g.t.Helper()
	g.until(pressable(fmt.Sprintf("field(%q) && named(%q, field(%q))", name, text, name)))
}

// pressable is true once the element was clicked.
func pressable(element string) string {
	return fmt.Sprintf(`(() => {
		const e = %s;
		if (!e || e.disabled) return "there is no such thing";
		e.scrollIntoView({ block: "center" });
		const box = e.getBoundingClientRect();
		const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
		if (!e.contains(hit)) return "it is covered by " + (hit?.className ?? "nothing");
		(hit.closest("input, label") ?? e).click();
		return true;
	})()`, element)
}

// write types a text into a field, in place of what is there.
func (g *page) write(name, text string) {
	g.t.Helper()
	g.until(fmt.Sprintf(`(() => { const c = control(%q); if (!c || !visible(c)) return false; c.focus(); c.select(); return document.activeElement === c; })()`, name))
	g.keys(text)
}

// choose picks an option of a list.
func (g *page) choose(name, option string) {
	g.t.Helper()
	g.until(fmt.Sprintf(`(() => {
		const c = control(%q);
		const o = c && [...c.options].find(o => o.text === %q);
		if (!o) return false;
		c.value = o.value;
		c.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`, name, option))
}

// keys types on the keyboard, wherever the focus is.
func (g *page) keys(text string, modifiers ...chromedp.Modifier) {
	g.t.Helper()
	for _, r := range text {
		down := *kb.Encode(r)[0]
		if events := kb.Encode(r); len(events) > 2 && len(modifiers) == 0 {
			// One event for the key and its character, as keyboards send it: a
			// page that takes the key keeps the character from being written.
			down.Text = events[1].Text
		}
		for _, m := range modifiers {
			down.Modifiers |= int64(m)
		}
		up := down
		up.Type, up.Text = kb.KeyUp, ""
		for _, event := range []input.DispatchKeyEventParams{down, up} {
			if _, err := chromedp.Call(g.ctx, input.DispatchKeyEvent, event); err != nil {
				g.t.Fatal(err)
			}
		}
	}
}

// tabTo presses the tab key until the focus is where an expression wants it.
func (g *page) tabTo(expression string) {
	g.t.Helper()
	for range 200 {
		if g.keys(key.Tab); eval[bool](g, expression) {
			return
		}
	}
	g.t.Fatalf("the tab key does not lead to: %s", expression)
}

// claim opens the first task of the list and takes it.
func (g *page) claim(name string) {
	g.t.Helper()
	g.until(pressable(`all(".queue-link")[0]`))
	g.take(name)
}

// take takes the open task; the name is asked for once.
func (g *page) take(name string) {
	g.t.Helper()
	g.press("Work on this")
	if name != "" {
		g.shows("What is your name?")
		g.write("Name", name)
		g.press("Continue")
	}
	g.showsIn(".editor", "You are working on this.")
}

// fits fails the test if the page is wider than its window.
func (g *page) fits(where string) {
	g.t.Helper()
	wide := eval[[]string](g, `[document.documentElement, ...all(".main, .side, .editor, dialog[open]")].filter(visible)
		.filter(e => e.scrollWidth > e.clientWidth).map(e => (e.className || e.tagName) + " " + e.scrollWidth + " > " + e.clientWidth)`)
	if len(wide) > 0 {
		g.t.Errorf("%s: too wide: %s", where, strings.Join(wide, "; "))
	}
}

// accessible fails the test for controls that a screen reader cannot name.
func (g *page) accessible(where string) {
	g.t.Helper()
	nameless := eval[[]string](g, `all("button, a, input, select, textarea, summary").filter(visible)
		.filter(e => label(e) === "" && !e.labels?.length && !e.getAttribute("aria-labelledby"))
		.map(e => e.outerHTML.slice(0, 120))`)
	if len(nameless) > 0 {
		g.t.Errorf("%s: without a name: %s", where, strings.Join(nameless, "; "))
	}
	broken := eval[[]string](g, `all("[aria-describedby], [aria-labelledby]").flatMap(e =>
		((e.getAttribute("aria-describedby") ?? "") + " " + (e.getAttribute("aria-labelledby") ?? "")).trim().split(/\s+/))
		.filter(id => !document.getElementById(id))`)
	if len(broken) > 0 {
		g.t.Errorf("%s: ids that lead nowhere: %s", where, strings.Join(broken, ", "))
	}
}
