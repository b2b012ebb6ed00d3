package gguf

// NormalizerKey is a key of ours in the metadata: how texts are normalized before they are tokenized. Its values are
// the names of tokenizer.json, or none.
const (
	NormalizerKey  = "agentd.tokenizer.normalizer"
	NormalizerNFC  = "NFC"
	NormalizerNone = "none"
)

// MaxTemplate bounds a chat template, in bytes.
const MaxTemplate = 1 << 20
