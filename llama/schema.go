package llama

// #include <stdlib.h>
// #include "shim.h"
import "C"

import "fmt"

// SchemaToGrammar turns a JSON schema into GBNF text whose root rule is
// "root", with llama-common's converter. What it refuses, and patterns it can't
// express, are ErrSchema. Keywords it does not know, such as multipleOf, leave
// the values free: the grammar then admits more than the schema does. The
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
	var out, cerr *C.char
	cstring(string(schema), func(p *C.char) { out = C.agd_schema_to_grammar(p, &cerr) })
	if out == nil {
		return "", native(ErrSchema, takeString(cerr))
	}
	gbnf := takeString(out)
	if err := ValidateGrammar(gbnf); err != nil {
		return "", fmt.Errorf("%w: %w", ErrSchema, err)
	}
	return gbnf, nil
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
