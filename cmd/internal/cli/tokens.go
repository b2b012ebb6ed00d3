package cli

import (
	"fmt"
	"regexp"
	"strings"

	"agentd/cmd/internal/options"
)

const (
	// tokenFileLimit bounds a token file in bytes.
	tokenFileLimit = 1 << 20
	// minTokenLength is the shortest bearer token accepted, in bytes: shorter
	// ones can be guessed over the network.
	minTokenLength = 16
	// maxClientNames bounds the names of tokens, since each makes series of metrics.
	maxClientNames = 1000
)

// Tokens are the bearer tokens of a file.
type Tokens struct {
	List []string
	// Names are the names of clients that have one, by token.
	Names map[string]string
	// Weights are those with the right to change the weights.
	Weights map[string]bool
}

// clientName is a name before a token.
var clientName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)

// rightWeights is the right to change the weights, as a token file has it.
const rightWeights = "weights"

// ReadTokens reads bearer tokens, one a line as TOKEN, NAME:TOKEN or NAME+weights:TOKEN. Several tokens may have one
// name. It skips blank lines and lines that begin with #. Errors name the line, never its token.
func ReadTokens(path string) (tokens Tokens, err error) {
	raw, err := options.ReadFile(path, tokenFileLimit)
	if err != nil {
		return tokens, err
	}
	tokens.Names, tokens.Weights = map[string]string{}, map[string]bool{}
	names, seen := map[string]bool{}, map[string]bool{}
	number := 0
	for line := range strings.Lines(string(raw)) {
		number++
		token := strings.TrimSpace(line)
		if token == "" || strings.HasPrefix(token, "#") {
			continue
		}
		name, rest, named := strings.Cut(token, ":")
		name, right, limited := strings.Cut(name, "+")
		if named = named && clientName.MatchString(name); named {
			token = strings.TrimSpace(rest)
			if limited && right != rightWeights {
				return tokens, fmt.Errorf("%s line %d: the right after + must be %s, as in NAME+%s:TOKEN", path, number, rightWeights, rightWeights)
			}
		}
		if len(token) < minTokenLength {
			return tokens, fmt.Errorf("%s line %d: a token needs at least %d characters (openssl rand -hex 32 makes one)", path, number, minTokenLength)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return tokens, fmt.Errorf("%s line %d: a token is one word of printable ASCII characters", path, number)
		}
		if seen[token] {
			return tokens, fmt.Errorf("%s line %d: the same token stands above; remove one of the two", path, number)
		}
		seen[token] = true
		tokens.List = append(tokens.List, token)
		if named {
			tokens.Names[token] = name
			if limited {
				tokens.Weights[token] = true
			}
			if names[name] = true; len(names) > maxClientNames {
				return tokens, fmt.Errorf("%s line %d: more than %d names, each of which has metrics of its own; give several tokens one name, or none", path, number, maxClientNames)
			}
		}
	}
	if len(tokens.List) == 0 {
		return tokens, fmt.Errorf("%s has no token; write one a line", path)
	}
	return tokens, nil
}
