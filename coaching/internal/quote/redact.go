package quote

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agentd/protocol"
)

// hidden replaces a secret.
const hidden = "***"

// minSecret is the shortest header value that is redacted. A "1" is not a key, and
// hiding each would make texts unreadable.
const minSecret = 4

// Redactor replaces the keys of a session in texts: errors, answers of endpoints, logs. A nil Redactor changes nothing.
type Redactor struct {
	replacer *strings.Replacer
	longest  int // bytes of the longest form of a key
}

// NewRedactor makes a redactor of header values. It replaces each value, the part after a scheme such as Bearer, the
// user and password of Basic, and single cookies. It also finds their spellings in JSON, URLs and base64. It ignores
// values of fewer than minSecret characters.
func NewRedactor(headers ...protocol.Headers) *Redactor {
	var forms []string
	for _, h := range headers {
		for name, value := range h {
			forms = append(forms, secretForms(name, value)...)
		}
	}
	// The replacer takes the first pair that matches, which has to be the longest.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	sorted := slices.Compact(forms)
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

// secretForms returns all spellings of the secrets in a header that are long enough.
func secretForms(name, value string) (forms []string) {
	for _, secret := range parts(name, value) {
		for _, form := range spellings(secret) {
			if len(form) >= minSecret {
				forms = append(forms, form)
			}
		}
	}
	return forms
}

// parts returns a header's value and the secrets inside it.
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

// spellings returns the forms in which a text may occur.
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

// quoted returns the inside of a quoted text.
func quoted(s string) string {
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// Text returns s with *** in place of every key. Call it before a text is clipped: half a key is not recognised.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	return r.replacer.Replace(s)
}

// Head returns the beginning of Text(s), at most limit bytes, without half a key at its end. It does not read all of a
// long text. A text slightly longer than limit is returned whole.
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

// Format implements fmt.Formatter. It prints no key.
func (r *Redactor) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redactor") }

// QueryKeys returns the values in an endpoint's query, which may be keys, as headers for NewRedactor.
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
