package egress

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentd/protocol"
)

// Redactor takes the keys of a session out of texts: of errors, of what an
// endpoint answered, of logs. A nil Redactor changes nothing.
type Redactor struct {
	replacer *strings.Replacer
	longest  int // bytes of the longest form of a key
}

// NewRedactor makes a redactor of header values. It knows each value, what stands
// behind a scheme such as Bearer, the user's name and password of Basic, single
// cookies, and all of these as JSON and URLs write them, and in base64. Values of
// fewer than four characters are not looked for.
func NewRedactor(headers ...protocol.Headers) *Redactor {
	forms := make(map[string]bool)
	for _, h := range headers {
		for name, value := range h {
			for _, secret := range parts(name, value) {
				for _, form := range spellings(secret) {
					if len(form) >= minSecret {
						forms[form] = true
					}
				}
			}
		}
	}
	// At one place the first pair that fits counts: the longest.
	sorted := slices.SortedFunc(maps.Keys(forms), func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	pairs := make([]string, 0, 2*len(sorted))
	for _, form := range sorted {
		pairs = append(pairs, form, hidden)
	}
	r := &Redactor{replacer: strings.NewReplacer(pairs...)}
	if len(sorted) > 0 {
		r.longest = len(sorted[0])
	}
	return r
}

// parts are a header's value and what in it is a secret by itself.
func parts(name, value string) []string {
	value = strings.TrimSpace(value)
	list := []string{value}
	if strings.EqualFold(name, "cookie") {
		for pair := range strings.SplitSeq(value, ";") {
			_, v, _ := strings.Cut(pair, "=")
			list = append(list, strings.TrimSpace(v))
		}
		return list
	}
	scheme, rest, ok := strings.Cut(value, " ")
	rest = strings.TrimSpace(rest)
	if !ok || !isScheme(scheme) && !strings.Contains(strings.ToLower(name), "authorization") {
		return list
	}
	list = append(list, rest)
	if pair, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "basic") {
		_, password, _ := strings.Cut(string(pair), ":")
		list = append(list, string(pair), password)
	}
	return list
}

func isScheme(s string) bool {
	return slices.Contains([]string{"bearer", "basic", "token", "apikey", "api-key", "key"}, strings.ToLower(s))
}

// spellings are the ways in which a text may come back.
func spellings(s string) []string {
	once := quoted(s)
	list := []string{
		s, once, quoted(once), strings.ReplaceAll(s, "/", `\/`), // twice: quoted by an error, within quoted JSON
		url.QueryEscape(s), strings.ReplaceAll(url.QueryEscape(s), "+", "%20"), url.PathEscape(s), html.EscapeString(s),
		base64.RawStdEncoding.EncodeToString([]byte(s)), base64.RawURLEncoding.EncodeToString([]byte(s)),
	}
	if inJSON, err := json.Marshal(s); err == nil {
		list = append(list, string(inJSON[1:len(inJSON)-1]))
	}
	return list
}

// quoted is the inside of a quoted text.
func quoted(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// Text is s with *** in place of every key. A text must be redacted before it is
// cut, since half a key is not recognised.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	return r.replacer.Replace(s)
}

// Head is the beginning of Text(s) without looking at all of a long s: at most
// limit bytes, and no half of a key. A text that is little longer it gives whole.
func (r *Redactor) Head(s string, limit int) (head string, whole bool) {
	longest := 0
	if r != nil {
		longest = r.longest
	}
	if len(s) <= limit+longest {
		return r.Text(s), true
	}
	head = r.Text(s[:limit+longest])
	return strings.ToValidUTF8(head[:max(len(head)-longest, 0)], ""), false
}

// Format prints nothing of what the redactor knows.
func (r *Redactor) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redactor") }

// QueryKeys are the values in an endpoint's query, which may be keys too, as
// headers for NewRedactor.
func QueryKeys(endpoint string) protocol.Headers {
	keys := make(protocol.Headers)
	_, query, _ := strings.Cut(endpoint, "?")
	for pair := range strings.SplitSeq(query, "&") {
		_, raw, _ := strings.Cut(pair, "=")
		keys["raw "+pair] = raw
		if value, err := url.QueryUnescape(raw); err == nil {
			keys[pair] = value
		}
	}
	return keys
}
