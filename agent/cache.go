package agent

import (
	"encoding/binary"
	"fmt"
	"sync"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/internal/lru"
	"agentd/protocol"
)

// catalogCache holds prepared tool sets and schemas with their grammars, which take milliseconds to build.
type catalogCache struct {
	format       format.Format
	defaultRobot string

	entries *lru.Cache[*cachedCatalog]
}

type cachedCatalog struct {
	once    sync.Once
	catalog *format.Catalog
	err     error
}

func newCatalogCache(f format.Format, defaultRobot string) *catalogCache {
	return &catalogCache{format: f, defaultRobot: defaultRobot, entries: lru.New[*cachedCatalog](maxCatalogs, maxCatalogBytes)}
}

// get returns the catalog of tools and robots. The error names the unusable tool.
func (c *catalogCache) get(raw []protocol.Raw, robots []string) (*format.Catalog, error) {
	return c.made(catalogKey(0, raw, robots), raw, func(own []protocol.Raw) (*tools.Set, error) {
		return tools.Normalise(own, robots, c.defaultRobot)
	})
}

// functions is get for the tools of a chat.
func (c *catalogCache) functions(f *tools.Functions) (*format.Catalog, error) {
	rules := []string{f.Only, fmt.Sprint(f.MustCall, f.OneCall)}
	return c.made(catalogKey(1, f.Raw, rules), f.Raw, func(own []protocol.Raw) (*tools.Set, error) {
		functions := *f
		functions.Raw = own
		return tools.NormaliseFunctions(&functions)
	})
}

// answer is get for the schema of an answer in a chat.
func (c *catalogCache) answer(source protocol.Raw) (*format.Catalog, error) {
	raw := []protocol.Raw{source}
	return c.made(catalogKey(2, raw, nil), raw, func(own []protocol.Raw) (*tools.Set, error) { return tools.NormaliseAnswer(own[0]) })
}

// made returns the catalog of a key, of a set that normalise makes of raw tools the first time.
func (c *catalogCache) made(key []byte, raw []protocol.Raw, normalise func([]protocol.Raw) (*tools.Set, error)) (*format.Catalog, error) {
	name := string(key)
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
			if entry.catalog = c.format.Catalog(set); set.Answer != nil {
				entry.catalog = format.AnswerCatalog(c.format, set)
			}
			c.entries.Grow(name, catalogCopies*max(set.Bytes(), len(name)))
		}
	})
	return entry.catalog, entry.err
}

// catalogKey encodes what a catalog depends on: raw tools or schemas of a kind, and its robots or rules.
func catalogKey(kind byte, raw []protocol.Raw, robots []string) []byte {
	size := 16
	for _, r := range raw {
		size += len(r) + 4
	}
	for _, r := range robots {
		size += len(r) + 4
	}
	key := binary.AppendUvarint(append(make([]byte, 0, size), kind), uint64(len(raw)))
	return appendSized(appendSized(key, raw...), robots...)
}

// appendSized appends texts, each after its length.
func appendSized[T ~string | ~[]byte](key []byte, list ...T) []byte {
	for _, t := range list {
		key = append(binary.AppendUvarint(key, uint64(len(t))), t...)
	}
	return key
}
