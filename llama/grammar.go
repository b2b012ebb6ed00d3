package llama

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentd/internal/base/clip"
)

// scanGrammar refuses texts on which llama.cpp's parser would crash, hang or run out of
// memory: it recurses on nesting, loops on repetition bounds in the wrong order, and expands
// repetitions of long literals. The parser checks the rest of the syntax.
func scanGrammar(gbnf string) error {
	switch {
	case len(gbnf) > MaxGrammarBytes:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrGrammar, len(gbnf), MaxGrammarBytes)
	case !utf8.ValidString(gbnf):
		return fmt.Errorf("%w: it is not UTF-8", ErrGrammar)
	case strings.IndexByte(gbnf, 0) >= 0:
		return fmt.Errorf("%w: it holds a NUL", ErrGrammar)
	}
	s := grammarScan{text: gbnf}
	return s.run()
}

type grammarScan struct {
	text     string
	at       int
	depth    int // open groups
	rules    int // rules to llama.cpp: named ones, groups, optional repetitions
	elements int // elements after the expansion of repetitions
	item     int // elements of the last item, which a repetition would repeat
}

func (s *grammarScan) run() error {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case '"':
			s.quoted('"')
		case '[':
			s.quoted(']')
		case '<':
			s.skipTo('>')
			s.add(1)
		case '#':
			for s.at < len(s.text) && s.text[s.at] != '\n' && s.text[s.at] != '\r' {
				s.at++
			}
		case '(':
			s.depth++
			s.rules++
			s.at++
		case ')':
			s.depth--
			s.at++
			s.add(1) // a reference to the group's rule
		case ':':
			s.at++
			if strings.HasPrefix(s.text[s.at:], ":=") {
				s.rules++
				s.at += 2
			}
		case '*', '+', '?':
			s.at++
			s.rules++
			s.elements += 2 * s.item
		case '{':
			if err := s.repetition(); err != nil {
				return err
			}
		default:
			s.at++
			if isWord(c) {
				for s.at < len(s.text) && isWord(s.text[s.at]) {
					s.at++
				}
				s.add(1)
			} else if c == '.' {
				s.add(1)
			}
		}
		switch {
		case s.depth > MaxGrammarNesting:
			return fmt.Errorf("%w: groups are nested more than %d deep", ErrGrammar, MaxGrammarNesting)
		case s.rules > MaxGrammarRules:
			return fmt.Errorf("%w: more than %d rules, groups and repetitions", ErrGrammar, MaxGrammarRules)
		case s.elements > MaxGrammarElements:
			return fmt.Errorf("%w: more than %d elements after its repetitions are written out", ErrGrammar, MaxGrammarElements)
		}
	}
	return nil
}

func isWord(c byte) bool {
	return c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// add counts an item of n elements.
func (s *grammarScan) add(n int) {
	s.item = n
	s.elements += n
}

// quoted skips a literal or a character class, which ends with an unescaped end.
func (s *grammarScan) quoted(end byte) {
	n := 0
	for s.at++; s.at < len(s.text) && s.text[s.at] != end; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
		n++
	}
	s.at++
	s.add(n)
}

func (s *grammarScan) skipTo(end byte) {
	for s.at++; s.at < len(s.text) && s.text[s.at] != end; s.at++ {
	}
	s.at++
}

// repetition reads {m}, {m,} or {m,n} and counts the elements of its expansion.
func (s *grammarScan) repetition() error {
	start := s.at
	s.skipTo('}')
	text := s.text[start:min(s.at, len(s.text))]
	lowText, highText, open := strings.Cut(strings.Trim(text, "{}"), ",")
	low, err := bound(lowText)
	if err != nil {
		return fmt.Errorf("%w: repetition %q: %w", ErrGrammar, clip.Text(text, maxQuoted), err)
	}
	high := low
	switch highText = strings.TrimSpace(highText); {
	case open && highText == "":
		high = low + 1 // the rest is one rule that repeats itself
	case open:
		if high, err = bound(highText); err != nil {
			return fmt.Errorf("%w: repetition %q: %w", ErrGrammar, clip.Text(text, maxQuoted), err)
		}
		if high < low {
			return fmt.Errorf("%w: repetition %q: the upper bound is below the lower one", ErrGrammar, clip.Text(text, maxQuoted))
		}
	}
	s.rules += high - low
	s.elements += s.item*high + 3*(high-low)
	return nil
}

func bound(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 0 {
		return 0, fmt.Errorf("a bound is not a number")
	}
	if n > MaxGrammarRepetition {
		return 0, fmt.Errorf("bound %d is more than %d", n, MaxGrammarRepetition)
	}
	return n, nil
}
