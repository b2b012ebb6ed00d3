package core

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

func tokensOf(text string) (list []Token) {
	for _, r := range text {
		list = append(list, r)
	}
	return list
}

func different(n int) string {
	text := make([]rune, n)
	for i := range text {
		text[i] = '\u4E00' + rune(i)
	}
	return string(text)
}

func TestRepeated(t *testing.T) {
	list := "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, "
	for name, tc := range map[string]struct {
		text string
		want int
	}{
		"nothing":                         {"a", 0},
		"eight tokens four times":         {"x" + strings.Repeat("abcdefgh", 4), 8},
		"three times":                     {strings.Repeat("abcdefgh", 3), 0},
		"four times but for the last one": {strings.Repeat("abcdefgh", 3) + "abcdefgx", 0},
		"four times but for the first":    {"xbcdefgh" + strings.Repeat("abcdefgh", 3), 0},
		"not at the end any more":         {strings.Repeat("abcdefgh", 4) + "x", 0},
		"one token 32 times":              {strings.Repeat("a", 32), 8},
		"one token 31 times":              {strings.Repeat("a", 31), 0},
		"16 elements of a list":           {strings.Repeat("0,", 16), 8},
		"15 elements of a list":           {strings.Repeat("0,", 15), 0},
		"three tokens, twelve times":      {strings.Repeat("abc", 12), 9},
		"three tokens, eleven times":      {strings.Repeat("abc", 11), 0},
		"a list of different numbers":     {list + list + list, 0},
		"the same list four times":        {list + list + list + list, 30},
		"the longest that is looked for":  {strings.Repeat(different(maxRepeat), 4), maxRepeat},
		"one that is longer":              {strings.Repeat(different(maxRepeat+1), 4), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := repeated(tokensOf(tc.text), tuned.minRepeat); got != tc.want {
				t.Errorf("%d tokens repeat, want %d", got, tc.want)
			}
		})
	}
}

// slowRepeated computes the same from the definition.
func slowRepeated(tokens []Token, least int) int {
	for size := least; 4*size <= len(tokens); size++ {
		same := true
		for back := 1; back <= 3*size; back++ {
			same = same && tokens[len(tokens)-back] == tokens[len(tokens)-back-size]
		}
		if same {
			return size
		}
	}
	return 0
}

func TestRepeatedEqualsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	found := 0
	for range 20000 {
		var tokens []Token
		for range 1 + r.IntN(3) { // repeated pieces, some with an error
			piece := make([]Token, 1+r.IntN(12))
			for i := range piece {
				piece[i] = Token(r.IntN(2))
			}
			for range 1 + r.IntN(6) {
				tokens = append(tokens, piece...)
			}
			if r.IntN(4) == 0 {
				tokens[r.IntN(len(tokens))] ^= 1
			}
		}
		least := 1 + r.IntN(10)
		got, want := repeated(tokens, least), slowRepeated(tokens, least)
		if got != want {
			t.Fatalf("of %v %d tokens repeat, want %d", tokens, got, want)
		}
		if got > 0 {
			found++
		}
	}
	if found < 1000 {
		t.Errorf("only %d repetitions: the test shows little", found)
	}
}

func BenchmarkRepeated(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 5))
	for name, token := range map[string]func(i int) Token{
		"text":        func(int) Token { return Token(r.IntN(4000)) },
		"few tokens":  func(int) Token { return Token(r.IntN(4)) },
		"nearly same": func(i int) Token { return Token(i % 31 / 30 * i) },
	} {
		for _, n := range []int{64, 256, 1024, 8192} {
			var tokens []Token
			for i := range n {
				tokens = append(tokens, token(i))
			}
			b.Run(name+","+strconv.Itoa(n), func(b *testing.B) {
				for b.Loop() {
					repeated(tokens, tuned.minRepeat)
				}
			})
		}
	}
}
