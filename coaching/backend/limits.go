package backend

import "time"

const (
	// DefaultMaxTokens bounds an answer when the question does not. A decision takes a few hundred tokens; the rest is
	// for models that think first.
	DefaultMaxTokens = 4096

	// MaxRetryAfter is the longest wait that an endpoint may ask for. Whoever asks for more is not asked again: the
	// next backend is, and a request is not held for an hour.
	MaxRetryAfter = time.Minute

	// maxRetryAfterShown is the longest wait that is kept of a Retry-After, however absurd.
	maxRetryAfterShown = 24 * time.Hour

	// backoffFirst and backoffMost are the waits before the second try and before a late one; see backoff.
	backoffFirst = 500 * time.Millisecond
	backoffMost  = 30 * time.Second

	// maxAnswer is how many bytes an answer may have: a decision has hundreds, and what a model thought before it some
	// hundred thousand.
	maxAnswer = 1 << 20

	// maxValues is how many elements and members the JSON of an answer may have. The SDKs make up to two kilobytes of
	// each, slowly, and nothing can interrupt them: an array of ones as long as maxAnswer allows takes a gigabyte.
	maxValues = 20_000

	// maxErrorBody is how much is read of the body of an error. Its message is at the start or not at all.
	maxErrorBody = 64 << 10

	// maxDetail is how many characters of an endpoint's message an Error repeats.
	maxDetail = 500

	// maxShownName is how many characters of a model's name, as the endpoint gives it, an Answer repeats.
	maxShownName = 100

	// charsPerToken turns the window of the server's own model into characters of a prompt. JSON has three to four
	// characters to a token, numbers and names fewer; a prompt that does not fit costs the whole try, so this is low.
	charsPerToken = 2

	// sdkTimeout keeps the SDKs from setting a timeout of their own. Retry.Timeout bounds every try.
	sdkTimeout = 1000 * time.Hour
)
