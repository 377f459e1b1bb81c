package store_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

var damages = flag.Int("damages", 60, "number of random damages to the files of a data directory")

var damageIndex = store.NewIndex("clusters-by-name")

// damageSite is a data directory whose files are damaged.
type damageSite struct {
	dir     string
	options store.Options
	rows    int
	content string
}

// newDamageSite fills a data directory. A killed one also has a log.
func newDamageSite(t *testing.T, killed bool) *damageSite {
	t.Helper()
	s := &damageSite{dir: t.TempDir(), options: withKeys(newRing(t)), rows: 400,
		content: strings.Repeat("content ", 20000)}
	db := openWith(t, s.dir, s.options)
	add := func(from, to int) {
		for n := from; n < to; n += 20 {
			update(t, db, func(tx *store.Tx) error {
				for i := n; i < n+20; i++ {
					c := cluster{Name: fmt.Sprint("name ", i), Hosts: i,
						Tags: map[string]string{"t": strings.Repeat("x", i)}}
					if err := errors.Join(clusters.Put(tx, clusterKey(i), &c),
						damageIndex.Add(tx, clusterKey(i))); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	add(0, 300)
	staged, err := db.Stage(t.Context(), strings.NewReader(s.content))
	require.NoError(t, err)
	update(t, db, func(tx *store.Tx) error { return sealedFiles.Put(tx, "big", staged, now) })
	require.NoError(t, db.Close())
	db = openWith(t, s.dir, s.options)
	add(300, s.rows)
	if killed {
		s.dir = copyOf(t, s.dir)
	}
	require.NoError(t, db.Close())
	return s
}

func clusterKey(n int) string { return fmt.Sprintf("%06d", n) }

// copyOf returns a copy of a data directory.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// damageRandomly damages one file of a directory, and describes how.
func damageRandomly(t *testing.T, dir string, random *rand.Rand) string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && entry.Name() != "landfall.lock" {
			files = append(files, path)
		}
		return err
	}))
	path := files[random.IntN(len(files))]
	if random.IntN(2) == 0 {
		path = filepath.Join(dir, store.FileName)
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	name := filepath.Base(path)
	used := len(bytes.TrimRight(text, "\x00"))
	if used == 0 {
		return name + " is empty"
	}
	what := ""
	switch kind := random.IntN(10); {
	case kind < 5:
		for range 1 + random.IntN(3) {
			at := random.IntN(used)
			text[at] ^= 1 << random.IntN(8)
			what += fmt.Sprintf("%s: a bit at %d flipped; ", name, at)
		}
	case kind < 6:
		text = text[:random.IntN(used)]
		what = fmt.Sprintf("%s: cut off at %d", name, len(text))
	case kind < 7:
		require.NoError(t, os.Remove(path))
		return name + ": lost"
	case kind < 9 && used > 8192:
		from, to := random.IntN(used/4096)*4096, random.IntN(used/4096)*4096
		copy(text[to:], bytes.Clone(text[from:from+4096]))
		what = fmt.Sprintf("%s: block %d copied to %d", name, from/4096, to/4096)
	default:
		at := random.IntN(used)
		clear(text[at:min(at+512, used)])
		what = fmt.Sprintf("%s: 512 bytes at %d cleared", name, at)
	}
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return what
}

// requireNothingWrong reads everything. What is served must be what was written, and what is
// missing must be named.
func (s *damageSite) requireNothingWrong(t *testing.T, db *store.DB) (lost int) {
	t.Helper()
	listed, indexed := map[string]bool{}, []string{}
	require.NoError(t, db.View(func(tx *store.Tx) error {
		if err := clusters.Each(tx, "", func(key string, c *cluster) error {
			listed[key] = true
			require.Equal(t, "name "+fmt.Sprint(c.Hosts), c.Name)
			require.Equal(t, clusterKey(c.Hosts), key)
			return nil
		}); err != nil {
			return err
		}
		for n := range s.rows {
			c, err := clusters.Get(tx, clusterKey(n))
			if err == nil {
				require.Equal(t, n, c.Hosts)
				require.True(t, listed[clusterKey(n)])
				continue
			}
			lost++
		}
		return damageIndex.Keys(tx, "", func(key string) error { indexed = append(indexed, key); return nil })
	}))
	if len(indexed) != s.rows || slices.Contains(indexed, "") {
		require.True(t, slices.Contains(db.Stale(), "/clusters-by-name/") || len(db.Damage()) > 0, "the index is wrong")
		lost++
	}
	file, _, err := sealedFiles.Open(db, "big")
	if err == nil {
		var text []byte
		if text, err = io.ReadAll(file); err == nil {
			require.Equal(t, s.content, string(text))
		}
		require.NoError(t, file.Close())
	}
	if err != nil {
		lost++
	}
	if lost > 0 {
		require.NotEmpty(t, append(db.Stale(), damagedKeys(db)...), "something is missing without an error")
	}
	return lost
}

func damagedKeys(db *store.DB) (keys []string) {
	for _, d := range db.Damage() {
		keys = append(keys, d.Key)
	}
	return keys
}

// TestDamage_randomDamageIsNeverServed damages files of a data directory at random places, of a
// stopped and of a killed process. Nothing wrong is served, and nothing is missing without an
// error.
func TestDamage_randomDamageIsNeverServed(t *testing.T) {
	sites := []*damageSite{newDamageSite(t, false), newDamageSite(t, true)}
	refused, lost, unnoticed := 0, 0, 0
	for seed := range *damages {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		s := sites[seed%2]
		dir := copyOf(t, s.dir)
		what := damageRandomly(t, dir, random)
		db, err := store.Open(t.Context(), dir, s.options)
		if err != nil {
			refused++
			require.NotContains(t, err.Error(), "\n")
			require.NoError(t, os.RemoveAll(dir))
			continue
		}
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					t.Log(what)
				}
			}()
			if s.requireNothingWrong(t, db) > 0 {
				lost++
			} else {
				unnoticed++
			}
			require.NoError(t, db.Update(t.Context(), put("new", cluster{Name: "name 0"})))
		})
		require.NoError(t, db.Close())
		if ok {
			require.NoError(t, os.RemoveAll(dir))
		}
	}
	t.Logf("%d damages: the start was refused %d times, something was lost and named %d times, nothing was lost %d "+
		"times", *damages, refused, lost, unnoticed)
}
