package llama

// #include <stdlib.h>
// #include "native/api.h"
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unsafe"

	"agentd/internal/base/clip"
)

// Template is a parsed chat template. Any number of goroutines may render it.
//
// A template is a program by the author of the checkpoint, so it runs with limits.
type Template struct {
	model  *Model
	source string
	limits templateLimits

	mu  sync.RWMutex
	ptr *C.struct_agd_template
}

// templateLimits bound one rendering.
type templateLimits struct {
	time   time.Duration // processor time
	memory int           // bytes of variables, values and output
	stack  int           // bytes of stack for nested blocks, macros and values
}

// maxTemplate bounds every rendering. A recursive macro takes 2 to 20 KiB of stack for each level.
var maxTemplate = templateLimits{time: 5 * time.Second, memory: 256 << 20, stack: 16 << 20}

// templateError is an ErrTemplate with the reason: the argument of raise_exception, the limit that was reached, or the
// mistake and its line.
type templateError string

func (e templateError) Error() string        { return string(e) }
func (e templateError) Is(target error) bool { return target == ErrTemplate }

// newTemplateError makes one sentence of llama.cpp's text, which quotes the source between location and reason.
func newTemplateError(text string) error {
	if _, rest, ok := strings.Cut(text, " at line "); ok {
		place, rest, _ := strings.Cut(rest, " in source:")
		if _, reason, ok := strings.Cut(rest, "\nError: "); ok {
			text = "line " + place + ": " + reason
		}
	}
	return templateError(clip.Text(strings.TrimSpace(text), maxErrorText))
}

// NewTemplate parses a Jinja source with llama-common's engine; "" means the model's template. The error is
// ErrNoTemplate if the model has none, and ErrTemplate for an invalid source.
func (m *Model) NewTemplate(jinja string) (*Template, error) {
	if jinja == "" {
		if jinja = m.template; jinja == "" {
			return nil, ErrNoTemplate
		}
	}
	if err := checkTemplate(jinja); err != nil {
		return nil, err
	}
	if _, err := m.acquire(); err != nil {
		return nil, err
	}
	var ptr *C.struct_agd_template
	var cerr *C.char
	cstring(jinja, func(src *C.char) {
		cstring(m.vocab.pieceText(m.vocab.bos, true), func(bos *C.char) {
			cstring(m.vocab.pieceText(m.vocab.eos, true), func(eos *C.char) {
				ptr = C.agd_template_new(src, C.size_t(len(jinja)), bos, eos, &cerr)
			})
		})
	})
	if ptr == nil {
		m.release()
		return nil, native(ErrTemplate, takeString(cerr))
	}
	return &Template{model: m, source: jinja, limits: maxTemplate, ptr: ptr}, nil
}

// checkTemplate bounds size and nesting of a template, which the engine parses by recursion.
func checkTemplate(jinja string) error {
	if len(jinja) > MaxTemplateBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTemplate, len(jinja), MaxTemplateBytes)
	}
	depth := 0
	for i := range len(jinja) {
		switch jinja[i] {
		case '(', '[', '{':
			if depth++; depth > MaxTemplateNesting {
				return fmt.Errorf("%w: brackets are nested more than %d deep", ErrTemplate, MaxTemplateNesting)
			}
		case ')', ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return nil
}

// Source returns the template's Jinja text.
func (t *Template) Source() string { return t.source }

// Render renders the template. vars is a JSON object of its variables: messages, tools, add_generation_prompt and
// others that it reads. bos_token and eos_token are the model's unless given; strftime_now returns now. The error is
// ErrTemplate, with the reason, if the template raises an error or fails. It also is if the template takes more than 5
// s of processor time, 256 MiB of memory or 16 MiB of stack.
func (t *Template) Render(vars []byte, now time.Time) (string, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.ptr == nil {
		return "", ErrClosed
	}
	if len(vars) == 0 {
		return "", templateError("its variables are empty, not a JSON object")
	}
	if err := checkNesting(vars, MaxVariableNesting); err != nil {
		return "", templateError("its variables: " + err.Error())
	}
	var n C.size_t
	var cerr *C.char
	limits := C.struct_agd_template_limits{
		cpu_ms: C.int64_t(t.limits.time.Milliseconds()), bytes: C.size_t(t.limits.memory), stack: C.size_t(t.limits.stack),
	}
	text := C.agd_template_render(t.ptr, (*C.char)(unsafe.Pointer(&vars[0])), C.size_t(len(vars)), C.int64_t(now.Unix()), &limits, &n, &cerr)
	if text == nil {
		return "", newTemplateError(takeString(cerr))
	}
	defer C.free(unsafe.Pointer(text))
	return C.GoStringN(text, C.int(n)), nil
}

// Close frees the template.
func (t *Template) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ptr == nil {
		return ErrClosed
	}
	C.agd_template_free(t.ptr)
	t.ptr = nil
	t.model.release()
	return nil
}

// checkNesting bounds the depth of a JSON text, which native code reads by recursion. It counts brackets outside of
// strings; the parser checks the rest.
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
