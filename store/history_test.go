package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/store"
)

var papers = store.NewFiles("papers")

// historyOptions returns options that keep the history of papers and of clusters. The owner of a
// cluster's history is the first letter of its key.
func historyOptions(ownerBytes, bytes int64) store.Options {
	return store.Options{History: store.History{OwnerBytes: ownerBytes, Bytes: bytes, Owner: func(key string) string {
		if id, ok := strings.CutPrefix(key, clusters.Prefix()); ok {
			return id[:1]
		}
		if strings.HasPrefix(key, papers.Prefix()) {
			return "papers"
		}
		return ""
	}}}
}

func note(text string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		tx.Note(func() []byte { return []byte(text) })
		return nil
	}
}

// withNote returns an update with a note.
func withNote(text string, fns ...func(*store.Tx) error) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		for _, fn := range append([]func(*store.Tx) error{note(text)}, fns...) {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

// past returns the updates that changed selected keys, the oldest first, one line each.
func past(t testing.TB, db *store.DB, prefix string) []string {
	t.Helper()
	var lines []string
	view(t, db, func(tx *store.Tx) error {
		return tx.History(func(key string) bool { return strings.HasPrefix(key, prefix) },
			func(step *store.Step) error {
				line := string(step.Note) + ":"
				for _, c := range step.Changes {
					line += fmt.Sprintf(" %d %s", c.Revision, strings.TrimPrefix(c.Key, clusters.Prefix()))
					line += " " + name(t, c.Before) + ">" + name(t, c.After)
					require.Equal(t, c.Deleted, c.After == nil)
				}
				lines = append(lines, line)
				return nil
			})
	})
	slices.Reverse(lines)
	return lines
}

func name(t testing.TB, text []byte) string {
	if text == nil {
		return "-"
	}
	var value struct{ Name, SHA256 string }
	require.NoError(t, json.Unmarshal(text, &value))
	return value.Name + value.SHA256[:min(4, len(value.SHA256))]
}

func TestHistory_valuesBeforeAndAfterEachUpdate(t *testing.T) {
	dir := t.TempDir()
	db := openWith(t, dir, historyOptions(1<<20, 1<<20))
	update(t, db, withNote("first", put("a", cluster{Name: "one"}), put("b", cluster{Name: "bee"})))
	update(t, db, withNote("second", put("a", cluster{Name: "two"})))
	update(t, db, put("b", cluster{Name: "wasp"}))
	require.Error(t, db.Update(t.Context(), withNote("fails", put("a", cluster{Name: "never"}),
		func(*store.Tx) error { return errors.New("no") })))
	update(t, db, withNote("writes nothing", put("a", cluster{Name: "two"})))
	update(t, db, withNote("third", remove("a"), remove("missing")))
	update(t, db, withNote("fourth", put("a", cluster{Name: "again"}), put("a", cluster{Name: "and again"})))
	want := []string{"first: 1 a ->one 2 b ->bee", "second: 3 a one>two", ": 4 b bee>wasp", "third: 5 a two>-",
		"fourth: 6 a ->again 7 a again>and again"}
	require.Equal(t, want, past(t, db, ""))
	require.Equal(t, []string{"first: 2 b ->bee", ": 4 b bee>wasp"}, past(t, db, clusters.Prefix()+"b"))

	require.NoError(t, db.Compact(t.Context(), 1<<60), "the history keeps changes that no watch needs")
	require.NoError(t, db.Close())
	require.Equal(t, want, past(t, openWith(t, dir, historyOptions(1<<20, 1<<20)), ""))
}

func TestHistory_updatesOfOneGroupAreSeparate(t *testing.T) {
	db := openWith(t, t.TempDir(), historyOptions(1<<20, 1<<20))
	first, entered := make(chan struct{}), make(chan struct{})
	done := make(chan error, 5)
	go func() {
		done <- db.Update(t.Context(), func(tx *store.Tx) error {
			close(entered)
			<-first
			return withNote("u", put("u", cluster{Name: "u"}))(tx)
		})
	}()
	<-entered
	for i := range 4 { // they form a group after the blocked one
		go func() {
			key := fmt.Sprint(i)
			done <- db.Update(t.Context(), withNote(key, put(key, cluster{Name: key}),
				put(key+"x", cluster{Name: key})))
		}()
	}
	close(first)
	for range 5 {
		require.NoError(t, <-done)
	}
	lines := past(t, db, "")
	require.Len(t, lines, 5)
	for i := range 4 {
		require.True(t, slices.ContainsFunc(lines, func(line string) bool {
			var first, second int
			key := fmt.Sprint(i)
			n, err := fmt.Sscanf(line, key+": %d "+key+" ->"+key+" %d "+key+"x ->"+key, &first, &second)
			return err == nil && n == 2 && second == first+1
		}), lines)
	}
}

func TestHistory_filesHaveDescriptions(t *testing.T) {
	db := openWith(t, t.TempDir(), historyOptions(1<<20, 1<<20))
	write := func(content string) {
		staged, err := db.Stage(t.Context(), strings.NewReader(content))
		require.NoError(t, err)
		update(t, db, func(tx *store.Tx) error { return papers.Put(tx, "p", staged, time.Unix(0, 0)) })
	}
	write("the first content")
	write(strings.Repeat("another content", 1000))
	update(t, db, func(tx *store.Tx) error { return papers.Delete(tx, "p") })
	lines := past(t, db, papers.Prefix())
	require.Len(t, lines, 3)
	require.Regexp(t, `^: 1 /papers/p ->[0-9a-f]{4}$`, lines[0])
	require.Regexp(t, `^: 2 /papers/p [0-9a-f]{4}>[0-9a-f]{4}$`, lines[1])
	require.Regexp(t, `^: 3 /papers/p [0-9a-f]{4}>-$`, lines[2])
}

func TestHistory_startsWhereItWasEnabled(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	update(t, db, put("a", cluster{Name: "one"}))
	update(t, db, put("a", cluster{Name: "two"}))
	require.NoError(t, db.Close())
	db = openWith(t, dir, historyOptions(1<<20, 1<<20))
	update(t, db, put("a", cluster{Name: "three"}))
	update(t, db, func(tx *store.Tx) error { return documents.Put(tx, "not wanted", &document{}) })
	require.Equal(t, []string{": 3 a two>three"}, past(t, db, ""))
}

// TestHistory_matchesModel changes rows at random while old changes are dropped. It compares the
// history with a list of all changes.
func TestHistory_matchesModel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	db := openWith(t, t.TempDir(), historyOptions(6<<10, 9<<10))
	values := make(map[string]cluster)
	var happened []string
	for round := range 500 {
		var fns []func(*store.Tx) error
		line := fmt.Sprintf("n%d:", round)
		for range 1 + random.IntN(3) {
			key := fmt.Sprintf("%c%d", 'a'+random.IntN(3), random.IntN(3))
			before, exists := values[key]
			describe := func(from, to string) {
				line += fmt.Sprintf(" %s %s>%s", key, from, to)
			}
			held := "-"
			if exists {
				held = before.Name
			}
			if exists && random.IntN(6) == 0 {
				delete(values, key)
				fns = append(fns, remove(key))
				describe(held, "-")
				continue
			}
			next := cluster{Name: fmt.Sprint(round, "-", len(fns)),
				Tags: map[string]string{"filler": strings.Repeat("f", random.IntN(2000)),
					"noise": fmt.Sprint(random.Uint64())}}
			values[key] = next
			fns = append(fns, put(key, next))
			describe(held, next.Name)
		}
		update(t, db, withNote(fmt.Sprintf("n%d", round), fns...))
		happened = append(happened, line)
		if round%50 == 49 {
			require.NoError(t, db.Compact(t.Context(), db.Revision()))
		}
	}
	found := make(map[string]int) // number of kept changes by owner
	last := len(happened) - 1
	view(t, db, func(tx *store.Tx) error {
		return tx.History(func(string) bool { return true }, func(step *store.Step) error {
			line := string(step.Note) + ":"
			for _, c := range step.Changes {
				key := strings.TrimPrefix(c.Key, clusters.Prefix())
				line += fmt.Sprintf(" %s %s>%s", key, name(t, c.Before), name(t, c.After))
				found[key[:1]]++
			}
			if line == happened[last] {
				last--
				return nil
			}
			// An update at the limit may have lost some of its changes.
			for ; last >= 0; last-- {
				whole := true
				for _, c := range step.Changes {
					whole = whole && strings.Contains(happened[last], fmt.Sprintf(" %s %s>%s",
						strings.TrimPrefix(c.Key, clusters.Prefix()), name(t, c.Before), name(t, c.After)))
				}
				if whole {
					return nil
				}
			}
			return fmt.Errorf("unexpected update %q in the history", line)
		})
	})
	require.Len(t, found, 3)
	for owner, count := range found {
		require.Greater(t, count, 10, owner)
		require.Less(t, count, 150, owner)
	}
}

func TestHistory_ownerLimit(t *testing.T) {
	db := openWith(t, t.TempDir(), historyOptions(4<<10, 1<<20))
	update(t, db, put("quiet", cluster{Name: "quiet"}))
	for i := range 400 {
		update(t, db, put("chatty", cluster{Name: fmt.Sprint(i)}))
	}
	require.Len(t, past(t, db, clusters.Prefix()+"c"), 400, "changes that a watch may need are kept")
	require.NoError(t, db.Compact(t.Context(), db.Revision()))
	chatty := past(t, db, clusters.Prefix()+"c")
	require.Greater(t, len(chatty), 30)
	require.Less(t, len(chatty), 80)
	require.Equal(t, ": 401 chatty 398>399", chatty[len(chatty)-1])
	require.Equal(t, []string{": 1 quiet ->quiet"}, past(t, db, clusters.Prefix()+"q"))
	view(t, db, func(tx *store.Tx) error {
		return tx.Rows(clusters.Prefix(), false, func(key string, row store.Row) error {
			if key == clusters.Prefix()+"chatty" {
				require.Equal(t, uint64(400), row.Version, "the version counts all changes")
				require.JSONEq(t, `{"name":"399","hosts":0}`, string(row.JSON))
			}
			return nil
		})
	})
}

func TestHistory_totalLimit(t *testing.T) {
	db := openWith(t, t.TempDir(), historyOptions(1<<20, 16<<10))
	for i := range 600 {
		update(t, db, put(string(rune('a'+i%26)), cluster{Name: fmt.Sprint(i)}))
	}
	require.NoError(t, db.Compact(t.Context(), db.Revision()))
	left := past(t, db, "")
	require.Greater(t, len(left), 100)
	require.Less(t, len(left), 350)
	require.Contains(t, left[len(left)-1], ">599")
}

func TestHistory_deletedLargeValueIsCompressed(t *testing.T) {
	db := openWith(t, t.TempDir(), historyOptions(2<<10, 1<<20))
	large := cluster{Name: "large", Tags: map[string]string{"text": string(bytes.Repeat([]byte("all the same "),
		4000))}}
	update(t, db, put("large", large))
	update(t, db, remove("large"))
	require.NoError(t, db.Compact(t.Context(), db.Revision()))
	require.Equal(t, []string{": 1 large ->large", ": 2 large large>-"}, past(t, db, ""))
}
