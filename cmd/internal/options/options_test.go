package options

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// config has a field for each kind of value.
type config struct {
	Text   string
	Words  string
	Choice string
	Off    bool
	Bool   bool
	Int    int
	IntOr  int
	Uint64 uint64
	Float  float64
	MaybeI *int
	MaybeF *float64
	Time   time.Duration
	List   []string
	Below  struct{ Embedded }
	Shared struct {
		One int
		Two bool
	}
	Site struct {
		URL  string
		Size int
	}
	file string
}

// Embedded is exported as the structs are that configurations embed.
type Embedded struct{ Inner int }

func (c *config) command() *Command {
	a, b := In("A"), In("B")
	return &Command{
		Name: "program", Version: "program 1", Intro: "Intro.\n", Outro: "Outro.\n", Env: "P_",
		File:  &File{Option: "config", Object: "model", Groups: []string{"A"}, Inner: map[string]string{"text": "path"}, Nullable: []string{"text"}},
		Hints: map[string]string{"n_ctx": "use int"},
		Options: []Option{
			a("text", "TEXT", "A | text.", Text(&c.Text)),
			a("words", "WORDS", "", Words(&c.Words)),
			a("choice", "one|two", "", Choice(&c.Choice, []string{"one", "two"}, map[string]string{"eins": "one"}).Refuse(func(s string) error {
				if s == "zero" {
					return errors.New("use one")
				}
				return nil
			})),
			a("off", "on|off", "", Either(&c.Off, "on", "off")),
			b("a-bool", "", "", Bool(&c.Bool)),
			b("int", "N", "", Int(&c.Int, 1, 9)),
			b("int-or", "N", "", IntOr(&c.IntOr, 1, 9, "auto", -1)),
			b("uint64", "N", "", Uint64(&c.Uint64)),
			b("float", "X", "", Float(&c.Float, 0, 10)),
			b("maybe-int", "N", "", OptionalInt(&c.MaybeI, 0, 9)),
			b("maybe-float", "X", "", OptionalFloat(&c.MaybeF, 0, 1)),
			b("time", "TIME", "", Duration(&c.Time, 0, time.Hour)),
			b("list", "LIST", "", List(&c.List, 3)),
			b("inner", "N", "", Int(&c.Below.Inner, 0, 9)),
			b("many", "KEY=VALUE,...", "Many.", Settings(
				b("one-of-many", "N", "the first.", Int(&c.Shared.One, 0, 9)),
				b("two", "on|off", "the second.", Either(&c.Shared.Two, "off", "on")),
			)),
			In("")("site", "URL,size=N", "", SettingsAfter(
				b("url", "URL", "", Text(&c.Site.URL)),
				b("size", "N", "", Int(&c.Site.Size, 0, 9)),
			)),
			In("")("hidden", "TEXT", "", Text(new(string))),
			b("config", "FILE", "", Text(&c.file)),
		},
	}
}

func (c *Command) option(t *testing.T, name string) Option {
	t.Helper()
	for _, o := range c.Options {
		if o.Name == name {
			return o
		}
	}
	t.Fatalf("no option %s", name)
	return Option{}
}

func TestValuesReadText(t *testing.T) {
	for _, test := range []struct{ option, text, want, err string }{
		{"text", " x ", " x ", ""},
		{"words", "a,b", "a,b", ""},
		{"choice", " Two ", "two", ""},
		{"choice", "eins", "one", ""},
		{"choice", "three", "", `got "three", want one of one, two`},
		{"choice", "zero", "", "use one"},
		{"off", "off", "off", ""},
		{"off", "true", "on", ""},
		{"off", "maybe", "", "want one of on, off"},
		{"a-bool", "true", "true", ""},
		{"a-bool", "yes", "", `got "yes", want true or false`},
		{"int", " 9 ", "9", ""},
		{"int", "10", "", `got "10", want a whole number from 1 to 9`},
		{"int", "x", "", "want a whole number"},
		{"int-or", "AUTO", "auto", ""},
		{"int-or", "-1", "auto", ""},
		{"int-or", "9", "9", ""},
		{"int-or", "0", "", "want a whole number from 1 to 9 or auto"},
		{"uint64", "18446744073709551615", "18446744073709551615", ""},
		{"uint64", "-1", "", "want a whole number from 0 to"},
		{"float", "0.5", "0.5", ""},
		{"float", "NaN", "", "want a number from 0 to 10"},
		{"maybe-int", "0", "0", ""},
		{"maybe-int", "10", "", "want a whole number from 0 to 9"},
		{"maybe-float", "1", "1", ""},
		{"maybe-float", "1.1", "", "want a number from 0 to 1"},
		{"time", "90s", "1m30s", ""},
		{"time", "90", "", "want a time span from 0s to 1h0m0s"},
		{"time", "-1s", "", "want a time span"},
		{"many", "two=on, one_of_many=3", "one-of-many=3,two=on", ""},
		{"many", "two=on,two=off", "one-of-many=0,two=off", ""},
		{"many", "two", "", `got "two", want KEY=VALUE; the keys are one-of-many, two`},
		{"many", "three=3", "", "three: is unknown; the keys are one-of-many, two"},
		{"many", "one-of-many=10", "", `one-of-many: got "10", want a whole number from 0 to 9`},
		{"site", "http://h/x?key=k", "http://h/x?key=k,size=0", ""},
		{"site", "size=3,http://h", "http://h,size=3", ""},
		{"site", "a,b", "b,size=0", ""},
		{"site", "size=3", "size=3", ""},
		{"site", "url=size,size=3", "size,size=3", ""},
		{"site", "h,siez=3", "", "siez: is unknown; the keys are url, size"},
		{"site", "http://h,size=10", "", `size: got "10", want a whole number from 0 to 9`},
		{"list", "a, b", "a,b", ""},
		{"list", "a,,b", "", "empty entry"},
		{"list", "a,b,c,d", "", "got 4 entries, want at most 3"},
	} {
		var c config
		value := c.command().option(t, test.option).Value
		err := value.Set(test.text)
		switch {
		case test.err == "" && (err != nil || value.String() != test.want):
			t.Errorf("%s %q: got %q, %v; want %q", test.option, test.text, value, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s %q: got %v, want %q", test.option, test.text, err, test.err)
		}
	}
}

func TestValuesReadJSON(t *testing.T) {
	for _, test := range []struct{ option, json, want, err string }{
		{"text", `"a\u0062"`, "ab", ""},
		{"text", `5`, "", "got 5, want a string in quotes"},
		{"words", `["a", "b"]`, "a,b", ""},
		{"words", `[1]`, "", "got 1 in the list"},
		{"choice", `"two"`, "two", ""},
		{"off", `"off"`, "off", ""},
		{"a-bool", `true`, "true", ""},
		{"a-bool", `"true"`, "", "without quotes"},
		{"int", `5`, "5", ""},
		{"int", `"5"`, "", "without quotes"},
		{"int-or", `"auto"`, "auto", ""},
		{"int-or", `"5"`, "", "without quotes"},
		{"maybe-float", `0.5`, "0.5", ""},
		{"time", `1.5`, "1.5s", ""},
		{"time", `"2m"`, "2m0s", ""},
		{"time", `true`, "", "or a number of seconds"},
		{"many", `{"one_of_many": 3, "two": "on"}`, "one-of-many=3,two=on", ""},
		{"many", `"two=on"`, "one-of-many=0,two=on", ""},
		{"site", `"http://h,size=3"`, "http://h,size=3", ""},
		{"site", `{"url": "http://h", "size": 3}`, "http://h,size=3", ""},
		{"many", `{"three": 3}`, "", "three: is unknown; the keys are one-of-many, two"},
		{"many", `{"one-of-many": "3"}`, "", "one-of-many: got"},
		{"many", `["two=on"]`, "", "want a string in quotes"},
		{"list", `["a", "b"]`, "a,b", ""},
		{"list", `"a,b"`, "a,b", ""},
		{"list", `[]`, "", ""},
		{"list", `{}`, "", "want a list"},
	} {
		var c config
		value := c.command().option(t, test.option).Value
		err := value.setJSON(jsontext.Value(test.json))
		switch {
		case test.err == "" && (err != nil || value.String() != test.want):
			t.Errorf("%s %s: got %q, %v; want %q", test.option, test.json, value, err, test.want)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s %s: got %v, want %q", test.option, test.json, err, test.err)
		}
	}
}

// parse parses a file of the given text ("" for none), variables and flags.
func parse(t *testing.T, c *config, file string, env map[string]string, args ...string) (Origins, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "f.json")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	from, _, err := c.command().Parse(args, func(name string) (string, bool) { s, ok := env[name]; return s, ok }, io.Discard)
	return from, err
}

func TestLaterLayersWin(t *testing.T) {
	var c config
	from, err := parse(t, &c, `{"int": 1, "uint64": 1, "model": {"path": "p", "off": "off"}, "list": "a"}`,
		map[string]string{"P_INT": "2", "P_UINT64": "2", "P_LIST": ""}, "--int=3", "--a_bool", "--list", "b", "--list=c")
	if err != nil || c.Int != 3 || c.Uint64 != 2 || c.Text != "p" || !c.Off || !c.Bool || !slices.Equal(c.List, []string{"b", "c"}) {
		t.Errorf("got %+v, %v", c, err)
	}
	if from.Name("int") != "--int" || from.Name("uint64") != "P_UINT64" || !strings.HasSuffix(from.Name("text"), "f.json: model.path") || from.Name("time") != "--time" || from["time"] != "" {
		t.Errorf("origins are %v", from)
	}
}

func TestBadLayersAreRefusedByName(t *testing.T) {
	for _, test := range []struct {
		file string
		env  map[string]string
		args []string
		want []string
	}{
		{args: []string{"--itn", "1"}, want: []string{"option --itn is unknown; did you mean --int?"}},
		{args: []string{"--n-ctx", "1"}, want: []string{"--n-ctx is not an option of program: use int"}},
		{args: []string{"--zzzzzz"}, want: []string{"program --help lists the options"}},
		{args: []string{"--int"}, want: []string{"--int", "program --help"}},
		{args: []string{"word"}, want: []string{`unexpected argument "word": options begin with --`}},
		{args: []string{"--a-bool", "false"}, want: []string{`unexpected argument "false": write --a-bool=false;`}},
		{args: []string{"--list", ""}, want: []string{"--list", "empty list"}},
		{args: []string{"--int", "0"}, want: []string{"--int: got"}},
		{env: map[string]string{"P_CONFIG": "/nonexistent"}, want: []string{"P_CONFIG: open /nonexistent"}},
		{env: map[string]string{"P_INT": "0"}, want: []string{"P_INT: got"}},
		{file: `{"int": 0}`, want: []string{"f.json: int: got"}},
		{file: `{"model": {"int": 1}}`, want: []string{"model.int is unknown"}},
		{file: `{"text": "a", "model": {"path": "b"}}`, want: []string{`model.path: the same option was already given as "text"; keep one`}},
		{file: `{"config": "x"}`, want: []string{"config is unknown"}},
		{file: `{"int": 1, "int": 2}`, want: []string{"duplicate"}},
		{file: `[]`, want: []string{"want one JSON object"}},
		{file: `{} {}`, want: []string{"more after the closing brace"}},
		{file: `{"list": null}`, want: []string{"list: got null"}},
		{args: []string{"--one_of_many", "3"}, want: []string{"option --one_of_many is a key of --many: write --many one-of-many=VALUE"}},
		{file: `{"one_of_many": 3}`, want: []string{"f.json: one_of_many is a key of --many: write --many one-of-many=VALUE"}},
		{args: []string{"--many", "two=on", "--many", "two"}, want: []string{`--many: got "two"`}},
		{args: []string{"--config", "/nonexistent"}, want: []string{"--config", "/nonexistent"}},
	} {
		_, err := parse(t, new(config), test.file, test.env, test.args...)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %v, want %q", test, err, want)
			}
		}
	}
}

func TestNullLeavesNullableOptionsUnset(t *testing.T) {
	c := config{Text: "before"}
	if from, err := parse(t, &c, `{"text": null}`, nil); err != nil || c.Text != "before" || from["text"] != "" {
		t.Errorf("got %+v, %v, %v", c, from, err)
	}
}

func TestArgumentsAreReturnedWhereAllowed(t *testing.T) {
	command := new(config).command()
	command.Arguments = true
	if _, rest, err := command.Parse([]string{"a", "--int", "1", "b"}, os.LookupEnv, io.Discard); err != nil || !slices.Equal(rest, []string{"a", "b"}) {
		t.Errorf("got %v, %v", rest, err)
	}
}

func TestUnknownVariablesAreFound(t *testing.T) {
	got := new(config).command().UnknownVariables([]string{"P_INT=1", "P_ITN=1", "HOME=/", "P_CONFIG=x", "P_FAR_AWAY=", "P_N_CTX=1"})
	want := []string{
		"variable P_ITN is unknown; did you mean P_INT?", "variable P_FAR_AWAY is unknown; program --help lists the options",
		"variable P_N_CTX is not an option of program: use int",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestServiceLinksAreNoOptions: Kubernetes sets these for Services named p and p-web.
func TestServiceLinksAreNoOptions(t *testing.T) {
	links := []string{
		"P_SERVICE_HOST=10.96.7.1", "P_SERVICE_PORT=8888", "P_SERVICE_PORT_HTTP=8888", "P_PORT=tcp://10.96.7.1:8888",
		"P_PORT_8888_TCP=tcp://10.96.7.1:8888", "P_PORT_8888_TCP_PROTO=tcp", "P_PORT_8888_TCP_PORT=8888", "P_PORT_8888_TCP_ADDR=10.96.7.1",
		"P_WEB_SERVICE_HOST=10.96.7.2", "P_WEB_PORT=tcp://10.96.7.2:80",
	}
	command := new(config).command()
	if got := command.UnknownVariables(links); len(got) > 0 {
		t.Errorf("got %q", got)
	}
	port := 1
	command.Options = append(command.Options, In("A")("port", "N", "", Int(&port, 1, 9)))
	env := map[string]string{"P_PORT": "tcp://10.96.7.1:8888"}
	lookup := func(name string) (string, bool) { s, ok := env[name]; return s, ok }
	if _, _, err := command.Parse(nil, lookup, io.Discard); err != nil || port != 1 {
		t.Errorf("port %d, %v", port, err)
	}
	env["P_PORT"] = "5"
	if _, _, err := command.Parse(nil, lookup, io.Discard); err != nil || port != 5 {
		t.Errorf("port %d, %v", port, err)
	}
}

func TestHelpAndVersionEndParsing(t *testing.T) {
	for flag, want := range map[string]string{
		"--version": "program 1\n",
		"-h": `Intro.

A
  --text TEXT               A | text. [a default]
`,
		"--help": "  --a-bool                  \n",
	} {
		c := config{Text: "a default"}
		var out strings.Builder
		_, _, err := c.command().Parse([]string{"--int", "99", flag}, os.LookupEnv, &out)
		if !errors.Is(err, ErrDone) || !strings.Contains(out.String(), want) {
			t.Errorf("%s: got %v\n%s", flag, err, out.String())
		}
	}
}

func TestHelpWrapsLongTexts(t *testing.T) {
	var out strings.Builder
	o := In("A")("a-name-that-is-too-long-for-its-column", "X", strings.Repeat("word ", 30), Text(new(string)))
	o.writeHelp(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) < 3 || lines[0] != "--a-name-that-is-too-long-for-its-column X" {
		t.Errorf("got\n%s", out.String())
	}
	for _, line := range lines {
		if len(line) > helpWidth {
			t.Errorf("line of %d columns: %s", len(line), line)
		}
	}
}

func TestMarkdownHasListForEachGroup(t *testing.T) {
	c := config{Text: "x", IntOr: -1}
	var out strings.Builder
	c.command().WriteMarkdown(&out, 3)
	for _, want := range []string{"\n### A\n\n- `--text TEXT` [`x`]: A | text.\n", "\n### B\n", "\n- `--off on|off`", "\n- `--int-or N` [`auto`]: ", "\n- `--int N`: ", "`one-of-many=0,two=off`"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "hidden") {
		t.Errorf("an option without a group is shown:\n%s", out.String())
	}
}

func TestFieldsAreNamedByFlags(t *testing.T) {
	var c config
	cause := errors.New("Config.Below.Inner 3 exceeds Config.Int; Config.Inner and Config.Other, Configs.Int, Config.Shared.One, Config.Site.URL, Config.Site.Size")
	err := c.command().NameFields(&c, cause)
	if want := "--inner 3 exceeds --int; --inner and Config.Other, Configs.Int, --many one-of-many, --site, --site size"; err.Error() != want || !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	if err := c.command().NameFields(&c, nil); err != nil {
		t.Error(err)
	}
}

func TestProblemsAreNamedByOrigin(t *testing.T) {
	p := Problems{From: Origins{"int": "P_INT", "many": "P_MANY"}}
	if p.Err() != nil {
		t.Error(p.Err())
	}
	p.Add("int", "is %d", 1)
	p.Add("text", "is empty")
	p.Add("many two", "is on")
	if got := p.Err().Error(); got != "P_INT: is 1\n--text: is empty\nP_MANY two: is on" {
		t.Errorf("got %q", got)
	}
}

func TestReadFileRefusesLargeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if raw, err := ReadFile(path, 5); err != nil || string(raw) != "12345" {
		t.Errorf("got %q, %v", raw, err)
	}
	if _, err := ReadFile(path, 4); err == nil {
		t.Error("no error")
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"prot", "port", 2}, {"modell", "model", 1}, {"kitten", "sitting", 3}} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzFile: no file makes a panic, and what it sets is in range.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{`{"int": 1, "model": {"path": "x"}, "list": ["a"]}`, `{"many": {"two": "on"}, "time": 1e9}`, `{"model": 1}`, `{`} {
		f.Add(seed)
	}
	path := filepath.Join(f.TempDir(), "f.json")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := config{Int: 1, IntOr: -1}
		_, _, err := c.command().Parse([]string{"--config", path}, func(string) (string, bool) { return "", false }, io.Discard)
		if err == nil && (c.Int < 1 || c.Int > 9 || c.Time < 0 || c.Time > time.Hour || len(c.List) > 3) {
			t.Errorf("%q gives %+v", text, c)
		}
	})
}
