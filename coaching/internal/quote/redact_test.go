package quote

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"agentd/protocol"
)

const key = `sk-ant/api03+"quoted"\<tag>&ünïcode=`

func TestRedactorRemovesKeys(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("robot:" + key))
	r := NewRedactor(
		protocol.Headers{"Authorization": "Bearer " + key, "X-Other": "Token other-key-1"},
		protocol.Headers{"authorization": "Basic " + basic, "Cookie": "session=cookie-key; theme=dark-theme"},
		protocol.Headers{"Proxy-authorization": "Custom custom-key", "X-Short": "abc", "X-Empty": ""},
	)
	inJSON, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ text, want string }{
		{"no such key: " + key + ".", "no such key: ***."},
		{"Bearer " + key, "***"},
		{"bearer " + key, "bearer ***"},
		{`{"error":` + string(inJSON) + `}`, `{"error":"***"}`},
		{"error: " + strconv.Quote(key), `error: "***"`},
		{"?key=" + url.QueryEscape(key), "?key=***"},
		{"/x/" + url.PathEscape(key) + "/y", "/x/***/y"},
		{"?key=" + strings.ReplaceAll(url.QueryEscape(key), "+", "%20"), "?key=***"},
		{"quoted in JSON: " + strconv.Quote(strconv.Quote(key)), `quoted in JSON: "\"***\""`},
		{"in base64: " + base64.RawStdEncoding.EncodeToString([]byte(key)), "in base64: ***"},
		{"in a URL's base64: " + base64.RawURLEncoding.EncodeToString([]byte(key)), "in a URL's base64: ***"},
		{"<b>" + html.EscapeString(key) + "</b>", "<b>***</b>"},
		{"Token other-key-1 other-key-1", "*** ***"},
		{"Basic " + basic + " " + basic + " robot:" + key, "*** *** ***"},
		{"session=cookie-key; theme=dark-theme", "***"},
		{"cookie-key and dark-theme", "*** and ***"},
		{"custom-key", "***"},
		{key + key, "******"},
		{"abc stays: it is too short to be a key", "abc stays: it is too short to be a key"},
		{"", ""},
	} {
		if got := r.Text(tt.text); got != tt.want {
			t.Errorf("Text(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
	r = NewRedactor(protocol.Headers{"A": "key-one", "B": "key-one-two", "C": "key-on"})
	if got := r.Text("key-one-two key-one key-on"); got != "*** *** ***" {
		t.Errorf("keys that begin alike: %q", got)
	}
	if got := (*Redactor)(nil).Text(key); got != key {
		t.Errorf("nil redactor: %q", got)
	}
	if got := NewRedactor().Text(key); got != key {
		t.Errorf("empty redactor: %q", got)
	}
	if got := fmt.Sprintf("%v %+v %#v %s", r, r, r, r); strings.Contains(got, "key") {
		t.Errorf("redactor prints %s", got)
	}
}

func TestRedactorHeadHasNoHalfKey(t *testing.T) {
	const limit = 100
	r := NewRedactor(protocol.Headers{"X": key, "Y": "short"})
	for before := range 2 * limit {
		text := strings.Repeat("short", before/5) + strings.Repeat("-", before%5) + key + strings.Repeat("é", 1000)
		head, whole := r.Head(text, limit)
		if full := r.Text(text); whole || len(head) > limit || !strings.HasPrefix(full, head) {
			t.Errorf("head %q of %q (whole: %v)", head, full, whole)
		}
	}
	for _, text := range []string{"", "a " + key, strings.Repeat("x", limit)} {
		if head, whole := r.Head(text, limit); head != r.Text(text) || !whole {
			t.Errorf("head %q of %q (whole: %v)", head, text, whole)
		}
	}
	if head, whole := (*Redactor)(nil).Head("abc", 2); head != "ab" || whole {
		t.Errorf("nil redactor: %q (whole: %v)", head, whole)
	}
}

func TestRedactorRemovesQueryKeys(t *testing.T) {
	r := NewRedactor(QueryKeys("https://host/path?api_key=a%2Fsecret&v=1&flag"))
	for text, want := range map[string]string{
		"key a/secret, a%2Fsecret of host/path 1": "key ***, *** of host/path 1",
	} {
		if got := r.Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
	if got := NewRedactor(QueryKeys("https://host/path")).Text("https://host/path"); got != "https://host/path" {
		t.Errorf("without a query: %q", got)
	}
}

func FuzzRedactorLeavesNoKey(f *testing.F) {
	f.Add("Authorization", "Bearer "+key, "error: ", " is wrong")
	f.Add("Cookie", "a=bcde; f=ghij", "", "bcde")
	f.Add("x", "abab", "ab", "ab")
	f.Fuzz(func(t *testing.T, name, value, before, after string) {
		r := NewRedactor(protocol.Headers{name: value})
		for _, secret := range parts(name, value) {
			if len(secret) < minSecret || strings.Contains(secret, "*") {
				continue // the stars that stand for a key may make such a one again
			}
			for _, form := range spellings(secret) {
				if got := r.Text(before + form + after); strings.Contains(got, secret) {
					t.Errorf("%q is left in %q", secret, got)
				}
			}
		}
	})
}
