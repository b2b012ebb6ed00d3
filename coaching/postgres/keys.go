package postgres

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Keys encrypt the configurations of sessions, which contain the headers of backends. The first
// key encrypts; the others decrypt what was encrypted while they were the first.
type Keys struct {
	first string // its id
	byID  map[string]cipher.AEAD
}

const (
	// keyBytes is the length of a key for AES-256.
	keyBytes = 32
	// keyIDBytes is the length of a key's id, which identifies a key without revealing it.
	keyIDBytes = 8
)

// ReadKeys reads keys, one in each line, in hexadecimal digits or base64. Lines with # are comments.
func ReadKeys(text string) (*Keys, error) {
	k := &Keys{byID: make(map[string]cipher.AEAD)}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		raw, err := hex.DecodeString(line)
		if err != nil {
			raw, err = base64.StdEncoding.DecodeString(line)
		}
		if err != nil || len(raw) != keyBytes {
			return nil, fmt.Errorf("line %d is not a key of %d bytes in hexadecimal digits or base64; make one with: openssl rand -hex %d", n, keyBytes, keyBytes)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		digest := sha256.Sum256(append([]byte("agentd key id\x00"), raw...))
		id := hex.EncodeToString(digest[:keyIDBytes])
		if k.first == "" {
			k.first = id
		}
		k.byID[id] = aead
	}
	if k.first == "" {
		return nil, errors.New("has no key; make one with: openssl rand -hex 32")
	}
	return k, nil
}

// seal encrypts text with AES-256-GCM. It can be opened for the same owner only.
func (k *Keys) seal(text, owner []byte) (id string, sealed []byte) {
	return k.first, k.byID[k.first].Seal(nil, nil, text, owner) //nolint:gosec // the AEAD makes the nonce itself
}

// open decrypts the result of seal.
func (k *Keys) open(id string, sealed, owner []byte) ([]byte, error) {
	aead := k.byID[id]
	if aead == nil {
		return nil, fmt.Errorf("the session is encrypted with the key %s, which the key file lacks; add that key after the first line", id)
	}
	text, err := aead.Open(nil, nil, sealed, owner)
	if err != nil {
		return nil, fmt.Errorf("the session cannot be decrypted with the key %s; its row is damaged: %w", id, err)
	}
	return text, nil
}
