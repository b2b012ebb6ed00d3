package cli

import (
	"fmt"
	"strings"

	"agentd/internal/options"
)

const (
	// tokenFileLimit bounds a token file in bytes.
	tokenFileLimit = 1 << 20
	// minTokenLength is the shortest bearer token accepted, in bytes: shorter
	// ones can be guessed over the network.
	minTokenLength = 16
)

// ReadTokens reads bearer tokens, one a line. It skips blank lines and lines that begin
// with #. Errors name the line, never its content.
func ReadTokens(path string) ([]string, error) {
	raw, err := options.ReadFile(path, tokenFileLimit)
	if err != nil {
		return nil, err
	}
	var tokens []string
	number := 0
	for line := range strings.Lines(string(raw)) {
		number++
		token := strings.TrimSpace(line)
		if token == "" || strings.HasPrefix(token, "#") {
			continue
		}
		if len(token) < minTokenLength {
			return nil, fmt.Errorf("%s line %d: a token needs at least %d characters (openssl rand -hex 32 makes one)", path, number, minTokenLength)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, fmt.Errorf("%s line %d: a token is one word of printable ASCII characters", path, number)
		}
		tokens = append(tokens, token)
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s has no token; write one a line", path)
	}
	return tokens, nil
}
