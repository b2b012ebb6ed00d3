package agent

import (
	"encoding/binary"
	"sync"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/internal/base/lru"
	"agentd/protocol"
)

// catalogCache caches prepared tool sets and schemas with their grammars, which take milliseconds to build.
type catalogCache struct {
	format  format.Format
	entries *lru.Cache[*cachedCatalog]
}

func newCatalogCache(f format.Format) *catalogCache {
	return &catalogCache{f, lru.New[*cachedCatalog](maxCatalogs, maxCatalogBytes)}
}

type cachedCatalog struct {
	once    sync.Once
	catalog *format.Catalog
	err     error
}

// Sources of a catalog.
const (
	ofTools     = iota // the tools of an input, and its robots
	ofFunctions        // the tools of a chat, and its rules
	ofAnswer           // the schema of an answer in a chat
)

// get returns the catalog of raw tools or schemas. The first time it calls normalise, whose result must depend on
// its argument, rules and the agent's settings only. The error names the unusable tool.
func (c *catalogCache) get(kind byte, raw []protocol.Raw, rules []string, normalise func([]protocol.Raw) (*tools.Set, error)) (*format.Catalog, error) {
	size := 16
	for _, r := range raw {
		size += len(r) + 4
	}
	for _, r := range rules {
		size += len(r) + 4
	}
	key := binary.AppendUvarint(append(make([]byte, 0, size), kind), uint64(len(raw)))
	name := string(appendSized(appendSized(key, raw...), rules...))
	entry, ok := c.entries.Get(name)
	if !ok {
		entry = c.entries.Add(name, new(cachedCatalog), len(name))
	}
	entry.once.Do(func() {
		// The raw tools are parts of the request's body, which the cache must not keep in memory.
		own := make([]protocol.Raw, len(raw))
		for i, r := range raw {
			own[i] = r.Clone()
		}
		var set *tools.Set
		if set, entry.err = normalise(own); entry.err == nil {
			if entry.catalog = c.format.Catalog(set); kind == ofAnswer {
				entry.catalog = format.AnswerCatalog(c.format, set)
			}
			entry.catalog.Key = name
			c.entries.Grow(name, catalogCopies*max(set.Bytes(), len(name)))
		}
	})
	return entry.catalog, entry.err
}

// answer returns the catalog for a chat's schema of answers.
func (c *catalogCache) answer(source protocol.Raw) (*format.Catalog, error) {
	return c.get(ofAnswer, []protocol.Raw{source}, nil, func(own []protocol.Raw) (*tools.Set, error) { return tools.NormaliseAnswer(own[0]) })
}

// appendSized appends texts to a cache key, each preceded by its length.
func appendSized[T ~string | ~[]byte](key []byte, list ...T) []byte {
	for _, t := range list {
		key = append(binary.AppendUvarint(key, uint64(len(t))), t...)
	}
	return key
}
