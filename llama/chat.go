package llama

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/go-json-experiment/json"
)

// ChatParser is llama-common's own view of a chat format: the prompt its
// template handling gives for a conversation, and the parsing of the model's
// answer. It is lenient (a cut-off call passes with broken arguments) and
// knows neither unknown tools nor stray special tokens, which are errors.
type ChatParser struct {
	model *Model

	mu  sync.Mutex
	ptr *C.struct_agd_chat
}

// ChatMessage is a parsed answer.
type ChatMessage struct {
	Content   string         `json:"content"`
	Reasoning string         `json:"reasoning"`
	ToolCalls []ChatToolCall `json:"tool_calls"`
}

// ChatToolCall is one call of a parsed answer. Arguments is meant to be JSON,
// but is not checked; ID is mostly empty.
type ChatToolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	ID        string `json:"id"`
}

// NewChatParser prepares parsing for a template ("" means the model's own) and
// a request: a JSON object with messages and optionally tools, both as the
// OpenAI API has them, enable_thinking, and now in seconds since 1970.
func (m *Model) NewChatParser(jinja string, request []byte) (*ChatParser, error) {
	if jinja == "" {
		if jinja = m.template; jinja == "" {
			return nil, ErrNoTemplate
		}
	}
	if err := checkTemplate(jinja); err != nil {
		return nil, err
	}
	if err := checkNesting(request, MaxVariableNesting); err != nil {
		return nil, fmt.Errorf("%w: request: %w", ErrChat, err)
	}
	ptr, err := m.acquire()
	if err != nil {
		return nil, err
	}
	var chat *C.struct_agd_chat
	var cerr *C.char
	cstring(jinja, func(src *C.char) {
		cstring(string(request), func(req *C.char) { chat = C.agd_chat_new(ptr, src, req, &cerr) })
	})
	if chat == nil {
		m.release()
		return nil, native(ErrChat, takeString(cerr))
	}
	return &ChatParser{model: m, ptr: chat}, nil
}

// Prompt is the conversation as llama-common renders it for the model.
func (c *ChatParser) Prompt() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ptr == nil {
		return "", ErrClosed
	}
	return takeString(C.agd_chat_prompt(c.ptr)), nil
}

// Grammar is the grammar that llama-common builds for the request, "" if it
// builds none.
func (c *ChatParser) Grammar() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ptr == nil {
		return "", ErrClosed
	}
	return takeString(C.agd_chat_grammar(c.ptr)), nil
}

// Parse splits a complete answer, without its end-of-generation token, into
// content, reasoning and tool calls. What does not parse is ErrChat.
func (c *ChatParser) Parse(text string) (ChatMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ptr == nil {
		return ChatMessage{}, ErrClosed
	}
	if len(text) > MaxText {
		return ChatMessage{}, fmt.Errorf("%w: %d bytes, at most %d", ErrChat, len(text), MaxText)
	}
	var cerr *C.char
	out := C.agd_chat_parse(c.ptr, (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)), &cerr)
	if out == nil {
		return ChatMessage{}, native(ErrChat, takeString(cerr))
	}
	var msg ChatMessage
	if err := json.Unmarshal([]byte(takeString(out)), &msg); err != nil {
		return ChatMessage{}, fmt.Errorf("%w: %w", ErrChat, err)
	}
	return msg, nil
}

// Close frees the parser. The second Close answers ErrClosed.
func (c *ChatParser) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ptr == nil {
		return ErrClosed
	}
	C.agd_chat_free(c.ptr)
	c.ptr = nil
	c.model.release()
	return nil
}
