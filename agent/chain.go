package agent

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"agentd/agent/format"
	"agentd/agent/memory"
	"agentd/protocol"
	"agentd/scheduler/generation"
)

// chain is the member memory.TokensKey: the tokens of a turn's prompt and answer. The next prompt of an input that
// asks for token ids begins with exactly these: a trainer needs prompts that extend the ones before.
type chain struct {
	Vocabulary string `json:"vocabulary"` // see [tokens.Tokenizer.VocabularyID]
	Of         string `json:"of"`         // see Agent.shown
	Ended      bool   `json:"ended"`      // the last token is the one that ended the answer
	IDs        string `json:"ids"`        // 32 bits each, little-endian, in base64
	// Attributes has the attributes that the tokens contain, by the index of their message in the history.
	Attributes map[int]string `json:"attributes,omitempty"`
}

// continued returns a prompt that begins with the tokens in the memory. It is nil if the memory has no tokens of this
// history. Earlier messages get the attributes that these tokens contain.
func (a *Agent) continued(in *inputRun, shown format.Input) (*format.Prompt, error) {
	c, ids, text := a.storedTokens(in)
	if ids == nil {
		return nil, nil
	}
	shown.Attributes = c.Attributes
	p, err := a.format.Render(&shown)
	if err != nil || p.LastTurn == 0 {
		return nil, err
	}
	next := p.After(text, ids, c.Ended)
	in.continues, in.earlier, in.differsAt = true, c.Attributes, firstDifference(next.Text, p.Text)
	return next, nil
}

// firstDifference returns the index of the first code point that differs in two texts, -1 if they are equal.
func firstDifference(text, other string) int {
	if text == other {
		return -1
	}
	at := 0
	for at < min(len(text), len(other)) && text[at] == other[at] {
		at++
	}
	return utf8.RuneCountInString(text[:at])
}

// storedTokens returns the tokens in the memory and their text; ids is nil if they can't begin this prompt.
func (a *Agent) storedTokens(in *inputRun) (c chain, ids []generation.Token, text string) {
	most := maxChain
	if a.cfg.ContextLength > 0 {
		most = min(most, a.cfg.ContextLength)
	}
	if in.memory.Tokens == nil || json.Unmarshal(in.memory.Tokens, &c) != nil || len(c.IDs) > bytesInChain*most ||
		c.Vocabulary != a.tokenizer.VocabularyID() || c.Of != a.shown(in, in.memory.History) {
		return c, nil, ""
	}
	raw, err := base64.StdEncoding.DecodeString(c.IDs)
	if err != nil || len(raw) == 0 || len(raw)%4 != 0 {
		return c, nil, ""
	}
	ids = make([]generation.Token, len(raw)/4)
	_, _ = binary.Decode(raw, binary.LittleEndian, ids) // the length is right
	text, known := a.tokenizer.Text(ids)
	if !known {
		return c, nil, ""
	}
	return c, ids, text
}

// storeTokens stores a turn's tokens in the candidate's memory, unless they are more than maxChain.
func (a *Agent) storeTokens(in *inputRun, out *protocol.AgentOutput, d *format.Decision, c *generation.Completion) {
	if len(in.request.Prompt)+len(c.Tokens) >= maxChain {
		in.dropTokens(out)
		return
	}
	history := append(in.memory.History[:len(in.memory.History):len(in.memory.History)],
		memory.Entry{Author: memory.AuthorOf(in.input.Instruction.Type), Content: in.input.Instruction.Content},
		memory.Entry{Author: memory.Model, Content: string(memory.WriteDecision(d.Say, d.ToolCalls, false))})
	raw := tokenBytes(slices.Concat(in.request.Prompt, c.All()))
	attributes := map[int]string{}
	maps.Copy(attributes, in.earlier)
	if len(in.input.Attributes) > len("{}") {
		attributes[len(in.memory.History)] = string(in.input.Attributes)
	}
	text, err := json.Marshal(chain{
		Vocabulary: a.tokenizer.VocabularyID(), Of: a.shown(in, history), Ended: c.Stop != "", IDs: base64.StdEncoding.EncodeToString(raw),
		Attributes: attributes,
	})
	if err == nil { // texts and a bool can't fail
		out.Memory = protocol.SetMember(out.Memory, memory.TokensKey, text)
	}
}

// tokenBytes returns tokens as in chain.IDs, before base64.
func tokenBytes(ids []generation.Token) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, ids) // numbers can't fail
	return b
}

// dropTokens removes the tokens of an earlier turn from a candidate's memory.
func (in *inputRun) dropTokens(out *protocol.AgentOutput) {
	if in.memory.Tokens != nil {
		out.Memory = protocol.DeleteMember(out.Memory, memory.TokensKey)
	}
}

// shown returns a hash of the format and of all that a prompt shows except for the newest instruction.
func (a *Agent) shown(in *inputRun, history []memory.Entry) string {
	o := a.cfg.Prompt
	texts := []string{fmt.Sprintf("%q", []any{a.format.Name(), o.Architecture, o.ChatTemplate, o.EnableThinking, o.ReasoningEffort, o.OutputStyle, a.cfg.DefaultRobot}),
		in.catalog.Key}
	texts = append(append(texts, in.memory.Rules...), in.memory.Summary)
	for i := range history {
		texts = append(texts, string(history[i].Author), history[i].Content)
	}
	h := sha256.New()
	for _, text := range texts {
		_, _ = h.Write(appendSized(nil, text)) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
