package backend

import "time"

const (
	// DefaultMaxTokens bounds an answer if the question does not. A decision takes a few hundred tokens; the rest is
	// for reasoning.
	DefaultMaxTokens = 4096

	// MaxRetryAfter is the longest wait that an endpoint may ask for. If it asks for more, the next backend is asked.
	MaxRetryAfter = time.Minute

	// backoffFirst is the wait before the second try, backoffMost the longest one; see retry.Backoff.
	backoffFirst = 500 * time.Millisecond
	backoffMost  = 30 * time.Second

	// maxErrorBody bounds the bytes that are read of an error's body. The message is at its beginning.
	maxErrorBody = 64 << 10

	// maxDetail bounds the characters of an endpoint's message in an Error.
	maxDetail = 500

	// maxShownName bounds the characters of the model's name in an Answer.
	maxShownName = 100

	// charsPerToken converts the window of the server's model to characters of a prompt. JSON has three to four
	// characters per token, numbers and names fewer. The value is low, since a prompt that does not fit fails.
	charsPerToken = 2
)
