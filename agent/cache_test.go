package agent

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"agentd/agent/format"
	"agentd/agent/tools"
	"agentd/protocol"
)

// counting is a format that counts the catalogs it makes.
type counting struct {
	format.Format
	mu   sync.Mutex
	made int
}

func (f *counting) Catalog(set *tools.Set) *format.Catalog {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.made++
	return &format.Catalog{Set: set}
}

func tool(name string, padding int) []protocol.Raw {
	return []protocol.Raw{protocol.Raw(fmt.Sprintf(`{"name":%q,"description":%q}`, name, strings.Repeat("x", padding)))}
}

// get is what an input gets of a cache.
func get(c *catalogCache, raw []protocol.Raw, robots []string) (*format.Catalog, error) {
	return c.get(ofTools, raw, robots, func(own []protocol.Raw) (*tools.Set, error) { return tools.Normalise(own, robots, "robot") })
}

func TestCatalogCache(t *testing.T) {
	t.Run("a set is made once, also when many ask at a time", func(t *testing.T) {
		f := &counting{}
		c := newCatalogCache(f)
		var wait sync.WaitGroup
		for range 32 {
			wait.Go(func() {
				if _, err := get(c, tool("a", 0), []string{"r"}); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if f.made != 1 {
			t.Errorf("made %d times", f.made)
		}
	})
	t.Run("other tools, other robots and another split of them are other sets", func(t *testing.T) {
		f := &counting{}
		c := newCatalogCache(f)
		for range 2 {
			for _, robots := range [][]string{nil, {"ab"}, {"a", "b"}} {
				for _, name := range []string{"a", "b"} {
					if _, err := get(c, tool(name, 0), robots); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if f.made != 6 {
			t.Errorf("made %d times, want 6", f.made)
		}
	})
	t.Run("errors are kept too", func(t *testing.T) {
		c := newCatalogCache(&counting{})
		_, err := get(c, []protocol.Raw{protocol.Raw(`{}`)}, nil)
		if _, again := get(c, []protocol.Raw{protocol.Raw(`{}`)}, nil); err == nil || !errors.Is(again, err) {
			t.Errorf("%v, then %v", err, again)
		}
	})
	t.Run("the number of sets and their bytes are bounded", func(t *testing.T) {
		f := &counting{}
		c := newCatalogCache(f)
		for i := range maxCatalogs + 50 {
			if _, err := get(c, tool(fmt.Sprint(i), 0), nil); err != nil {
				t.Fatal(err)
			}
		}
		made := f.made
		if get(c, tool(fmt.Sprint(50), 0), nil); f.made != made {
			t.Errorf("fewer than %d sets are kept", maxCatalogs)
		}
		if get(c, tool(fmt.Sprint(49), 0), nil); f.made == made {
			t.Errorf("more than %d sets are kept", maxCatalogs)
		}
		made = f.made
		if get(c, tool(fmt.Sprint(maxCatalogs+49), 0), nil); f.made != made {
			t.Error("the newest set must be kept")
		}
		for i := range 12 {
			if _, err := get(c, tool(fmt.Sprint("big", i), 1_000_000), nil); err != nil {
				t.Fatal(err)
			}
		}
		made = f.made
		if get(c, tool("big0", 1_000_000), nil); f.made == made {
			t.Errorf("more than %d bytes are kept", maxCatalogBytes)
		}
	})
	t.Run("what is made of a small request counts, not the request", func(t *testing.T) {
		f := &counting{}
		c := newCatalogCache(f)
		many := make([]protocol.Raw, 200)
		for i := range many {
			many[i] = tool(fmt.Sprint("t", i), 0)[0]
		}
		fresh := func(i int) (again bool) {
			made := f.made
			robots := []string{fmt.Sprint(i), strings.Repeat("r", 4_000)} // 800 kB in 200 tools
			if _, err := get(c, many, robots); err != nil {
				t.Fatal(err)
			}
			return f.made > made
		}
		for i := range 40 {
			fresh(i)
		}
		if most := maxCatalogBytes / (catalogCopies * 800_000); fresh(39) || !fresh(39-most) {
			t.Errorf("the newest set is not kept, or more than %d are", most)
		}
	})
}
