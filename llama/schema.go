package llama

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"agentd/llama/internal/pattern"
)

// SchemaToGrammar turns a JSON schema into GBNF text whose root rule is
// "root", with llama-common's converter. What it refuses, and patterns that no
// grammar can express, are ErrSchema. Keywords it does not know, such as multipleOf,
// leave the values free: the grammar then admits more than the schema does, as it
// does for a string that has a pattern and a length. The
// result is checked as by ValidateGrammar, so bounds such as minItems that
// exceed the limits of a grammar are errors here.
func SchemaToGrammar(schema []byte) (string, error) {
	install()
	if len(schema) > MaxSchemaBytes {
		return "", fmt.Errorf("%w: %d bytes, at most %d", ErrSchema, len(schema), MaxSchemaBytes)
	}
	if err := checkNesting(schema, MaxSchemaNesting); err != nil {
		return "", fmt.Errorf("%w: %w", ErrSchema, err)
	}
	rules, err := patterns(schema)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSchema, err)
	}
	var out, cerr *C.char
	cstring(string(schema), func(p *C.char) {
		cstring(rules, func(r *C.char) { out = C.agd_schema_to_grammar(p, r, C.size_t(len(rules)), &cerr) })
	})
	if out == nil {
		return "", native(ErrSchema, takeString(cerr))
	}
	gbnf, err := withJSONNames(takeString(out))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSchema, err)
	}
	if err := ValidateGrammar(gbnf); err != nil {
		return "", fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return gbnf, nil
}

// patterns are the rules of all that may be a pattern in a schema, as
// agd_schema_to_grammar takes them.
func patterns(schema []byte) (string, error) {
	if !bytes.Contains(schema, []byte(`"pattern"`)) {
		return "", nil
	}
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return "", nil // the converter tells what is wrong
	}
	var b strings.Builder
	seen := map[string]bool{}
	var walk func(v any) error
	walk = func(v any) error {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				if err := walk(e); err != nil {
					return err
				}
			}
		case map[string]any:
			if text, ok := v["pattern"].(string); ok && !seen[text] && strings.IndexByte(text, 0) < 0 {
				seen[text] = true
				rule, err := pattern.Rule(text)
				if err != nil {
					rule = fmt.Sprintf("!the pattern %q can't be turned into a grammar: %v", text, err)
				}
				b.WriteString(text + "\x00" + rule + "\x00")
			}
			if b.Len() > MaxGrammarBytes {
				return fmt.Errorf("its patterns are more than %d bytes as a grammar", MaxGrammarBytes)
			}
			for _, e := range v {
				if err := walk(e); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := walk(root)
	return b.String(), err
}

// checkNesting bounds the depth of a JSON text, which native code walks by
// recursion. It looks at brackets outside of strings only; whether the rest is
// JSON is for the parser to say.
func checkNesting(json []byte, limit int) error {
	depth, inString := 0, false
	for i := 0; i < len(json); i++ {
		switch c := json[i]; {
		case c == 0:
			return fmt.Errorf("byte %d is NUL", i)
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > limit {
				return fmt.Errorf("nested more than %d deep at byte %d", limit, i)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
