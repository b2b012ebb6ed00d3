package agent

import (
	"container/list"
	"encoding/binary"
	"fmt"
	"sync"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

// catalogCache is an LRU cache of prepared tool sets and schemas of answers, with their grammars.
// Clients send the same ones again and again, and a grammar takes milliseconds to build.
type catalogCache struct {
	format       format.Format
	defaultRobot string

	mu    sync.Mutex
	byKey map[string]*list.Element // of *cachedCatalog
	order *list.List               // most recently used first
	bytes int                      // of all entries
}

type cachedCatalog struct {
	key     string
	bytes   int // guarded by catalogCache.mu
	once    sync.Once
	catalog *format.Catalog
	err     error
}

func newCatalogCache(f format.Format, defaultRobot string) *catalogCache {
	return &catalogCache{format: f, defaultRobot: defaultRobot, byKey: map[string]*list.Element{}, order: list.New()}
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
	entry := c.entry(key)
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
			c.grow(entry, catalogCopies*max(set.Bytes(), len(entry.key)))
		}
	})
	return entry.catalog, entry.err
}

func (c *catalogCache) entry(key []byte) *cachedCatalog {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[string(key)]; ok {
		c.order.MoveToFront(e)
		return e.Value.(*cachedCatalog)
	}
	entry := &cachedCatalog{key: string(key), bytes: len(key)}
	c.byKey[entry.key] = c.order.PushFront(entry)
	c.bytes += entry.bytes
	c.evict()
	return entry
}

// grow counts the memory of a prepared entry.
func (c *catalogCache) grow(entry *cachedCatalog, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[entry.key]; ok && e.Value == entry { // not evicted yet
		entry.bytes += bytes
		c.bytes += bytes
		c.evict()
	}
}

// evict enforces the bounds. It keeps the newest entry. c.mu must be locked.
func (c *catalogCache) evict() {
	for c.order.Len() > 1 && (c.order.Len() > maxCatalogs || c.bytes > maxCatalogBytes) {
		oldest := c.order.Remove(c.order.Back()).(*cachedCatalog)
		delete(c.byKey, oldest.key)
		c.bytes -= oldest.bytes
	}
}

// catalogKey encodes everything that a catalog depends on: raw tools or schemas of a kind, and its
// robots or rules.
func catalogKey(kind byte, raw []protocol.Raw, robots []string) []byte {
	size := 16
	for _, r := range raw {
		size += len(r) + 4
	}
	for _, r := range robots {
		size += len(r) + 4
	}
	key := binary.AppendUvarint(append(make([]byte, 0, size), kind), uint64(len(raw)))
	for _, r := range raw {
		key = append(binary.AppendUvarint(key, uint64(len(r))), r...)
	}
	for _, r := range robots {
		key = append(binary.AppendUvarint(key, uint64(len(r))), r...)
	}
	return key
}
