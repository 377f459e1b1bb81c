package inventory

import (
	"container/list"
	"sync"
)

// Cache holds the parsed facts of the most recently used hosts by host key. An entry is valid only
// for one revision: the last change of the host's reports. Therefore a transaction never reads the
// facts of another transaction.
type Cache struct {
	mu    sync.Mutex
	limit int
	order *list.List // of *cacheEntry, the most recently used first
	byKey map[string]*list.Element
}

type cacheEntry struct {
	key      string
	reported uint64
	facts    *Facts
}

// NewCache returns a cache of the facts of at most limit hosts.
func NewCache(limit int) *Cache {
	return &Cache{limit: limit, order: list.New(), byKey: make(map[string]*list.Element)}
}

// Get returns the facts of a host at a revision. The second value is false if the cache lacks them.
func (c *Cache) Get(key string, reported uint64) (*Facts, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, ok := c.byKey[key]
	if !ok || held.Value.(*cacheEntry).reported != reported {
		return nil, false
	}
	c.order.MoveToFront(held)
	return held.Value.(*cacheEntry).facts, true
}

// Put stores facts, unless the cache has newer facts of the host.
func (c *Cache) Put(key string, reported uint64, facts *Facts) {
	if reported == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if held, ok := c.byKey[key]; ok {
		if entry := held.Value.(*cacheEntry); entry.reported >= reported {
			return
		}
	}
	c.remove(key)
	c.byKey[key] = c.order.PushFront(&cacheEntry{key, reported, facts})
	if c.order.Len() > c.limit {
		c.remove(c.order.Back().Value.(*cacheEntry).key)
	}
}

// Drop removes the facts of a host.
func (c *Cache) Drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(key)
}

func (c *Cache) remove(key string) {
	if held, ok := c.byKey[key]; ok {
		c.order.Remove(held)
		delete(c.byKey, key)
	}
}
