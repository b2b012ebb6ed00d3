package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"agentd/agent/internal/pattern"
	"agentd/protocol"
)

// refuseLoader keeps schemas from reading files and addresses through $ref.
type refuseLoader struct{}

func (refuseLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("references to other documents are not followed: %s", url)
}

// checkURL names the schema inside the library; nothing is fetched from it.
const checkURL = "tool:parameters"

// decode makes the values that the library works on. It refuses numbers whose
// exponents are beyond every float64: the library takes them for fractions of
// that many digits.
func decode(raw protocol.Raw) (any, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return doc, checkNumbers(doc)
}

func checkNumbers(v any) error {
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := checkNumbers(e); err != nil {
				return err
			}
		}
	case json.Number:
		at := strings.IndexAny(string(v), "eE")
		if at < 0 {
			return nil
		}
		if exponent, err := strconv.Atoi(string(v[at+1:])); err != nil || exponent < -maxExponent || exponent > maxExponent {
			return fmt.Errorf("the number %.40s has an exponent beyond %d", v, maxExponent)
		}
	}
	return nil
}

// Usable makes the check, or says why the document is no usable schema.
func (d *Document) Usable() error {
	d.once.Do(func() {
		d.compiler = jsonschema.NewCompiler()
		d.compiler.UseLoader(refuseLoader{})
		d.compiler.AssertFormat()
		d.compiler.UseRegexpEngine(compilePattern)
		if d.compiled = d.compiler.AddResource(checkURL, d.root.exported); d.compiled == nil {
			d.check, d.compiled = d.compiler.Compile(checkURL)
		}
		if d.compiled != nil {
			d.compiled = errors.New(strings.Join(strings.Fields(d.compiled.Error()), " "))
		}
	})
	return d.compiled
}

// compilePattern makes the check's regular expression say what the rules say.
func compilePattern(expr string) (jsonschema.Regexp, error) {
	translated, err := pattern.Translate(expr)
	if err != nil {
		return nil, err
	}
	return regexp.Compile(translated)
}

// Validate holds a value against the document and returns it decoded. The error is a
// *jsonschema.ValidationError when the value breaks it.
func (d *Document) Validate(value protocol.Raw) (doc any, err error) {
	if err := d.Usable(); err != nil {
		return nil, err
	}
	if doc, err = decode(value); err != nil {
		return nil, err
	}
	if err := affordable(d.check, doc, len(value)); err != nil {
		return nil, err
	}
	return doc, d.check.Validate(doc)
}

// accepts tells whether the check takes a value for some schema of the document. It is true
// where that can't be told.
func (d *Document) accepts(n *node, value protocol.Raw) bool {
	if n.always != 0 {
		return n.always > 0
	}
	if d.Usable() != nil {
		return true
	}
	d.mu.Lock()
	check, err := d.compiler.Compile(checkURL + "#" + fragment(n.out))
	d.mu.Unlock()
	if err != nil {
		return true
	}
	doc, err := decode(value)
	if err != nil || affordable(check, doc, len(value)) != nil {
		return err == nil
	}
	return check.Validate(doc) == nil
}
