package remote

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"agentd/scheduler/generation"
)

// APIs of engines.
const (
	APIAuto        = "auto"
	APIVLLM        = "vllm" // and agentd's own
	APISGLang      = "sglang"
	APILlamaServer = "llama-server"
)

// APIs are the values of Config.API.
var APIs = []string{APIAuto, APIVLLM, APISGLang, APILlamaServer}

// Config configures an [Engine].
type Config struct {
	// URLs of engines that serve the same model. A path is a prefix of all paths. A slash and /v1 at the
	// end are ignored.
	URLs []string
	// API is one of [APIs]; APIAuto detects it from the first engine that answers.
	API string
	// KeyFile is a file with the key that is sent as a bearer token; "" sends none.
	KeyFile string
	// Model is the model's name in requests; "" takes the first that the engine lists.
	Model string
	// Retries is how often a completion that violates its grammar is generated again.
	Retries int
	// Connections is the limit of connections to each URL; 0 means [DefaultConnections].
	Connections int
	// QueueLimit is the limit of completions admitted at once; 0 means no limit.
	QueueLimit int
}

// Enabled reports whether there are URLs.
func (c *Config) Enabled() bool { return len(c.URLs) > 0 }

// Validate checks the fields. The error names the field, as in Config.URLs.
func (c *Config) Validate() error {
	if len(c.URLs) == 0 {
		return errors.New("Config.URLs: name at least one engine")
	}
	bases := make([]string, len(c.URLs))
	for i, text := range c.URLs {
		u, err := url.Parse(text)
		bases[i] = base(text)
		switch {
		case strings.Contains(text, "@"): // no part of a password may be shown
			return errors.New("Config.URLs: a URL must have no user, query or fragment; give the key as Config.KeyFile")
		case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
			return fmt.Errorf("Config.URLs: number %d is not a URL such as http://127.0.0.1:8000", i+1)
		case u.RawQuery != "" || u.Fragment != "":
			return errors.New("Config.URLs: a URL must have no user, query or fragment; give the key as Config.KeyFile")
		case slices.Contains(bases[:i], bases[i]):
			return fmt.Errorf("Config.URLs: %s is named twice", text)
		}
	}
	if !slices.Contains(APIs, c.API) {
		return fmt.Errorf("Config.API: %q is not one of %s", c.API, strings.Join(APIs, ", "))
	}
	if c.Retries < 0 || c.Retries > MaxRetries {
		return fmt.Errorf("Config.Retries: %d is not in 0 to %d", c.Retries, MaxRetries)
	}
	if c.Connections < 0 {
		return fmt.Errorf("Config.Connections: %d is negative", c.Connections)
	}
	return nil
}

// base returns an engine's URL without the slash and /v1 at its end, with which OpenAI's clients write it.
func base(url string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(url, "/"), "/v1"), "/")
}

// key reads the key file.
func (c *Config) key() (string, error) {
	if c.KeyFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(c.KeyFile)
	if err != nil {
		return "", fmt.Errorf("Config.KeyFile: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("Config.KeyFile: %s must hold one key of visible ASCII characters", c.KeyFile)
	}
	return key, nil
}

// Model is the vocabulary and the grammar check that an engine needs. It must be safe for concurrent use.
type Model interface {
	// Name returns the model's name for messages.
	Name() string
	// Size returns the number of tokens in the vocabulary.
	Size() int
	// Tokenize returns the ids of a plain text, without a BOS token.
	Tokenize(text string) ([]generation.Token, error)
	// Detokenize returns the text of ids, with special tokens.
	Detokenize(ids []generation.Token) string
	// IsEnd reports whether a token ends an answer.
	IsEnd(id generation.Token) bool
	// Ends returns the tokens that end an answer.
	Ends() []generation.Token
	// Control returns the control tokens that do not end an answer.
	Control() []generation.Token
	// Check returns the index of the first token that the grammar does not admit. If it admits
	// all, Check returns len(ids) if the text may end there, and -1 if it must continue.
	Check(grammar string, ids []generation.Token) (int, error)
	// PlainGrammar returns a grammar without agentd's additions to GBNF. It may admit more.
	PlainGrammar(grammar string) string
}
