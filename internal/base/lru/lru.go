// Package lru is a cache that evicts the least recently used entries.
package lru

import (
	"container/list"
	"strings"
	"sync"
)

// Cache holds a bounded number of values of bounded total size. Make it with New. It is safe for concurrent use.
type Cache[V any] struct {
	entries, bytes int // bounds

	mu    sync.Mutex
	byKey map[string]*list.Element // of *entry[V]
	order list.List                // most recently used first
	held  int                      // bytes of all entries
}

type entry[V any] struct {
	key   string
	value V
	bytes int
}

// New makes a Cache with these limits.
func New[V any](entries, bytes int) *Cache[V] {
	return &Cache[V]{entries: entries, bytes: bytes, byKey: map[string]*list.Element{}}
}

// Get returns the value of a key, and marks it as used.
func (c *Cache[V]) Get(key string) (value V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if ok {
		c.order.MoveToFront(e)
		value = e.Value.(*entry[V]).value
	}
	return value, ok
}

// Add adds a value with its size, unless the key has a value already, and returns the key's value. The newest entry is
// kept even if it exceeds the limit by itself. The cache copies the key, which may be a part of a larger text.
func (c *Cache[V]) Add(key string, value V, bytes int) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.order.MoveToFront(e)
		return e.Value.(*entry[V]).value
	}
	key = strings.Clone(key)
	c.byKey[key] = c.order.PushFront(&entry[V]{key, value, bytes})
	c.held += bytes
	c.evict()
	return value
}

// Grow adds to the size of a key's value, unless it was evicted.
func (c *Cache[V]) Grow(key string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		e.Value.(*entry[V]).bytes += bytes
		c.held += bytes
		c.evict()
	}
}

// evict enforces the limits. c.mu is held.
func (c *Cache[V]) evict() {
	for c.order.Len() > 1 && (c.order.Len() > c.entries || c.held > c.bytes) {
		oldest := c.order.Remove(c.order.Back()).(*entry[V])
		delete(c.byKey, oldest.key)
		c.held -= oldest.bytes
	}
}
