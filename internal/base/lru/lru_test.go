package lru

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"unsafe"
)

func TestLeastRecentlyUsedIsForgotten(t *testing.T) {
	for name, c := range map[string]*Cache[int]{"entries": New[int](3, math.MaxInt), "bytes": New[int](math.MaxInt, 30)} {
		t.Run(name, func(t *testing.T) {
			for i := range 3 {
				c.Add(fmt.Sprint(i), i, 10)
			}
			if v, ok := c.Get("0"); !ok || v != 0 {
				t.Errorf("0 is %d, %t", v, ok)
			}
			c.Add("3", 3, 10)
			for key, want := range map[string]bool{"0": true, "1": false, "2": true, "3": true} {
				if _, ok := c.byKey[key]; ok != want {
					t.Errorf("%s is kept: %t", key, ok)
				}
			}
		})
	}
}

func TestSecondOfTwoAddedAtOnceLoses(t *testing.T) {
	c := New[int](10, 100)
	if first, second := c.Add("a", 1, 10), c.Add("a", 2, 10); first != 1 || second != 1 || c.held != 10 {
		t.Errorf("%d and %d, %d bytes", first, second, c.held)
	}
}

func TestGrownEntryCountsAndNewestStays(t *testing.T) {
	c := New[int](10, 100)
	c.Add("a", 1, 10)
	c.Add("b", 2, 10)
	c.Grow("b", 200)
	c.Grow("gone", 200)
	if _, ok := c.Get("a"); ok {
		t.Error("the older entry is kept beyond the bound")
	}
	if v, ok := c.Get("b"); !ok || v != 2 || c.held != 210 {
		t.Errorf("the newest is %d, %t; %d bytes", v, ok, c.held)
	}
}

func TestConcurrentUseKeepsTheBooks(t *testing.T) {
	c := New[int](math.MaxInt, 1000)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			key := fmt.Sprint(i % 40)
			c.Add(key, i, 50)
			c.Get(key)
			c.Grow(key, 1)
		})
	}
	all.Wait()
	sum := 0
	for e := c.order.Front(); e != nil; e = e.Next() {
		sum += e.Value.(*entry[int]).bytes
	}
	if sum != c.held || c.held > c.bytes || len(c.byKey) != c.order.Len() {
		t.Errorf("%d entries (%d in the list) of %d bytes, counted as %d", len(c.byKey), c.order.Len(), sum, c.held)
	}
}

func TestKeyKeepsNoLargerTextInMemory(t *testing.T) {
	whole := fmt.Sprintf("%1000d", 7)
	c := New[int](10, 1000)
	c.Add(whole[:10], 1, 10)
	for key, e := range c.byKey {
		for _, kept := range []string{key, e.Value.(*entry[int]).key} {
			if unsafe.StringData(kept) == unsafe.StringData(whole) {
				t.Error("the whole text stays in memory")
			}
		}
	}
}
