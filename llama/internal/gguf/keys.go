package gguf

// NormalizerKey is our own metadata key for the Unicode normalization before tokenization. Values are the names in
// tokenizer.json, or NormalizerNone.
const (
	NormalizerKey  = "agentd.tokenizer.normalizer"
	NormalizerNFC  = "NFC"
	NormalizerNone = "none"
)

// MaxTemplate is the limit of a chat template in bytes.
const MaxTemplate = 1 << 20
