package rows

import (
	"bytes"
	"cmp"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"agentd/protocol"
)

// redacted stands where a secret was.
const redacted = "[REDACTED]"

// secrets are values that no row may hold: headers of coaching backends, and credentials of
// recorded requests. A model or a person may have repeated one.
type secrets map[string]bool

// credentials are the headers of a request that are secret.
var credentials = []string{"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"}

// harmless are the headers of a backend that are not secret.
var harmless = []string{"content-type", "accept", "user-agent"}

// session collects the headers of a coaching session's configuration, and passwords in its URLs.
func (s secrets) session(config *protocol.CoachingSessionConfig) {
	for i := range config.Backends {
		if u, err := url.Parse(config.Backends[i].Endpoint); err == nil {
			password, _ := u.User.Password()
			s.add(password)
		}
		for name, value := range config.Backends[i].Headers {
			if !slices.Contains(harmless, strings.ToLower(name)) {
				s.add(value)
			}
		}
	}
}

// request collects the credentials of a recorded request.
func (s secrets) request(headers protocol.Raw) {
	for name, raw := range protocol.Members(headers) {
		if !slices.Contains(credentials, strings.ToLower(name)) {
			continue
		}
		value, _ := protocol.Text(raw)
		s.add(value)
		for one := range protocol.Elements(raw) { // as net/http has them
			value, _ = protocol.Text(one)
			s.add(value)
		}
	}
}

// schemes stand before the credentials of an Authorization header.
var schemes = []string{"bearer", "basic", "token", "apikey"}

// add takes a value, what follows a scheme, and the values of cookies.
func (s secrets) add(value string) {
	list := []string{value}
	if scheme, rest, ok := strings.Cut(value, " "); ok && slices.Contains(schemes, strings.ToLower(scheme)) {
		list = append(list, strings.TrimSpace(rest))
	}
	for cookie := range strings.SplitSeq(value, ";") {
		if _, rest, ok := strings.Cut(cookie, "="); ok {
			list = append(list, strings.TrimSpace(rest))
		}
	}
	for _, secret := range list {
		if len(secret) >= minSecret {
			s[secret] = true
		}
	}
}

// replacer takes the secrets out of texts, and out of strings in JSON texts.
func (s secrets) replacer() *strings.Replacer {
	var list []string
	for secret := range s {
		list = append(list, secret, string(bytes.Trim(protocol.String(secret), `"`)))
	}
	// Of secrets that begin alike, the longest has to be found first.
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, secret := range slices.Compact(list) {
		pairs = append(pairs, secret, redacted)
	}
	return strings.NewReplacer(pairs...)
}

// clean takes secrets out of every text of a row, and returns about how many bytes the row has.
func clean(v reflect.Value, r *strings.Replacer) (size int) {
	switch v.Kind() {
	case reflect.String:
		text := v.String()
		if v.Type() == reflect.TypeFor[rawJSON]() && strings.Contains(text, `\`) {
			// A secret may be written with other escapes.
			if plain := jsontext.Value(text); plain.Format() == nil {
				text = string(plain)
			}
		}
		if text = r.Replace(text); text != v.String() {
			v.SetString(text)
		}
		return v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			size += clean(v.Field(i), r)
		}
		return size
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Struct {
			return v.Len() * int(v.Type().Elem().Size())
		}
		for i := range v.Len() {
			size += clean(v.Index(i), r)
		}
		return size
	default: // numbers
		return int(v.Type().Size())
	}
}
