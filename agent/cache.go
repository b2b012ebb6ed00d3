package agent

import (
	"container/list"
	"encoding/binary"
	"sync"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

// catalogCache keeps tool sets as the model is shown them, with their grammars:
// a client sends the same tools again and again, and a grammar takes
// milliseconds to build. The least recently used one leaves first.
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

// get is the catalog of some tools and robots. The error says which tool is
// unusable.
func (c *catalogCache) get(raw []protocol.Raw, robots []string) (*format.Catalog, error) {
	entry := c.entry(catalogKey(raw, robots))
	entry.once.Do(func() {
		// The cache outlives the request, whose memory the tools are part of.
		own := make([]protocol.Raw, len(raw))
		for i, r := range raw {
			own[i] = r.Clone()
		}
		var set *tools.Set
		if set, entry.err = tools.Normalise(own, robots, c.defaultRobot); entry.err == nil {
			entry.catalog = c.format.Catalog(set)
			c.grow(entry, catalogCopies*set.Bytes())
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

// grow counts what was made of an entry.
func (c *catalogCache) grow(entry *cachedCatalog, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[entry.key]; ok && e.Value == entry { // it has not left since
		entry.bytes += bytes
		c.bytes += bytes
		c.evict()
	}
}

// evict keeps the bounds, and the newest entry. c.mu is held.
func (c *catalogCache) evict() {
	for c.order.Len() > 1 && (c.order.Len() > maxCatalogs || c.bytes > maxCatalogBytes) {
		oldest := c.order.Remove(c.order.Back()).(*cachedCatalog)
		delete(c.byKey, oldest.key)
		c.bytes -= oldest.bytes
	}
}

// catalogKey is all that a catalog depends on, unambiguously.
func catalogKey(raw []protocol.Raw, robots []string) []byte {
	size := 16
	for _, r := range raw {
		size += len(r) + 4
	}
	for _, r := range robots {
		size += len(r) + 4
	}
	key := binary.AppendUvarint(make([]byte, 0, size), uint64(len(raw)))
	for _, r := range raw {
		key = append(binary.AppendUvarint(key, uint64(len(r))), r...)
	}
	for _, r := range robots {
		key = append(binary.AppendUvarint(key, uint64(len(r))), r...)
	}
	return key
}
