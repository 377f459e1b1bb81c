package ams

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/ams/amstest"
	"landfall/appliance/ams/outbox"
	"landfall/appliance/sitekey"
)

// courier is a connected machine that receives a site's files.
type courier struct {
	*site
	key    *sitekey.Key
	dir    string
	secret *memoryCredentials
}

func (s *site) courier() *courier {
	key, err := sitekey.LoadOrCreate(s.TempDir())
	require.NoError(s, err)
	return &courier{s, key, s.TempDir(), &memoryCredentials{secret: s.secret.secret}}
}

// export writes the waiting clusters to a file.
func (s *site) export() []byte {
	s.Helper()
	text, _, err := s.relay.ExportFile(s.Context())
	require.NoError(s, err)
	return text
}

func (c *courier) push(ctx context.Context, text []byte) ([]byte, error) {
	c.Helper()
	file, err := ReadCourier(bytes.NewReader(text), Export, nil)
	if err != nil {
		return nil, err
	}
	client := NewClient(ClientOptions{
		URL: file.Header.APIURL, TokenURL: ssoURL, Transport: amstest.Transport{Handler: c.ams}, Credentials: c.secret,
		Clock:  c.clock,
		Logger: slog.New(slog.DiscardHandler),
	})
	receipts, err := Push(ctx, file, PushOptions{Client: client, Clock: c.clock, Key: c.key,
		Progress: filepath.Join(c.dir, file.Header.Export)})
	if receipts == nil {
		return nil, err
	}
	var out bytes.Buffer
	require.NoError(c, WriteCourier(&out, c.key, *receipts))
	return out.Bytes(), err
}

func (c *courier) carry(text []byte) []byte {
	c.Helper()
	receipts, err := c.push(c.Context(), text)
	require.NoError(c, err)
	return receipts
}

func (c *courier) bring(receipts []byte) Imported {
	c.Helper()
	counts, err := c.relay.ImportReceipts(c.Context(), bytes.NewReader(receipts), c.key.Public().Fingerprint())
	require.NoError(c, err)
	return counts
}

func TestCourier_reportsLikeTheRelay(t *testing.T) {
	byLine, byCourier := newSite(t), newSite(t)
	byCourier.offline()
	ends := func(s *site) []map[string]any {
		one, two, gone, failed := s.register("one"), s.register("two"), s.register("gone"), s.register("failed")
		s.install(one, external, "one.example.com")
		s.delete(gone)
		s.prepare(failed, external2)
		s.rename(two, "renamed")
		s.settle(soon)
		if s == byCourier {
			s.online() // needed only by the courier: the test does not run the relay
			c := s.courier()
			require.Equal(t, Imported{Applied: 3}, c.bring(c.carry(s.export())))
			s.offline()
			s.settle(soon)
		}
		for _, id := range []string{one, two, failed} {
			s.requireSent(id)
			require.Equal(t, s.recorded(id).SubscriptionID, s.line(id).SubscriptionID)
		}
		rows := s.ams.Rows()
		slices.SortFunc(rows, func(a, b map[string]any) int {
			return strings.Compare(a["display_name"].(string), b["display_name"].(string))
		})
		for _, row := range rows {
			maps.DeleteFunc(row, func(name string, _ any) bool { // fields that always differ
				return slices.Contains([]string{"id", "href", "cluster_id", "created_at", "updated_at",
					"eval_expiration_date"}, name)
			})
		}
		return rows
	}
	online := ends(byLine)
	require.Len(t, online, 3)
	require.Equal(t, online, ends(byCourier), "AMS holds the same rows, field by field")
}

func TestCourier_faults(t *testing.T) {
	runFaults(t, []faultCase{
		{16, "a courier with credentials of another organization", func(s *site) {
			id := s.reserved("one")
			s.rename(id, "two")
			c := s.courier()
			c.secret.secret.OfflineToken = s.ams.AddAccount(amstest.Account{ID: "2GOuThem", Username: "them",
				Organization: "2GOuTheirs"})
			_, err := c.push(s.Context(), s.export())
			require.ErrorContains(s, err, "log in to the organization of the site")
			require.Empty(s, s.calls(), "the push is rejected before the first call")
		}},
		{31, "pushed twice", func(s *site) {
			id := s.register("one")
			c, file := s.courier(), s.export()
			first := c.carry(file)
			second := c.carry(file)
			require.Len(s, s.calls("create"), 1)
			c.dir = s.TempDir() // another machine without the progress of the first one
			third := c.carry(file)
			require.Len(s, s.calls("create"), 1)
			require.Equal(s, Imported{Applied: 1}, c.bring(first))
			held := s.recorded(id)
			require.Equal(s, Imported{Already: 1}, c.bring(second))
			require.Equal(s, Imported{Already: 1}, c.bring(third))
			require.Equal(s, held, s.recorded(id))
			s.requireSent(id)
		}},
		{32, "the connection breaks halfway", func(s *site) {
			var ids []string
			for range 6 {
				ids = append(ids, s.register("one"))
			}
			c, file := s.courier(), s.export()
			s.ams.Break(amstest.Fault{Op: "create", After: 3, Do: amstest.DropBefore()})
			half, err := c.push(s.Context(), file)
			require.Error(s, err)
			counts := c.bring(half)
			require.Equal(s, 3, counts.Applied)
			require.Equal(s, countLater(s, half), counts.Later)
			s.ams.Heal()
			c.carry(file)
			s.clock.Advance(soon)
			rest := c.carry(file) // after the quarantine, the push searches for subscriptions that may exist
			c.bring(rest)
			for _, id := range ids {
				s.requireRow(id, "Reserved", nil)
				s.requireSent(id)
			}
		}},
		{33, "the connection returns during a courier's lease", func(s *site) {
			id, waiting := s.reserved("one"), s.register("two")
			s.rename(id, "three")
			file := s.export()
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "three"}) // reported by the relay
			require.Empty(s, s.ams.RowsOf(waiting), "the courier creates subscriptions, not the relay")
			require.Contains(s, s.line(waiting).Reason, "courier")
			c := s.courier()
			c.bring(c.carry(file))
			s.settle(soon)
			s.requireRow(waiting, "Reserved", nil)
			s.requireSent(waiting)
			s.requireSent(id)
			require.Len(s, s.calls("create"), 1)
		}},
		{34, "an altered, foreign, truncated or newer file", func(s *site) {
			id := s.register("one")
			c, file := s.courier(), s.export()
			requireRefused := func(text []byte, says string) {
				s.Helper()
				_, err := c.push(s.Context(), text)
				require.ErrorIs(s, err, ErrCourier)
				require.ErrorContains(s, err, says)
				require.Len(s, strings.Split(err.Error(), "\n"), 1, "one sentence")
			}
			requireRefused([]byte("hello"), "not written by landfall")
			requireRefused(file[:len(file)/2], "damaged or truncated")
			requireRefused(repack(s, file, func(text string) string {
				return strings.Replace(text, `"display_name":"one"`, `"display_name":"two"`, 1)
			}), "does not match its digest")
			requireRefused(repack(s, file, func(text string) string {
				return strings.Replace(text, `"version":1`,
					`"version":2`, 1)
			}), "version is 2")
			requireRefused(repack(s, file,
				func(text string) string { return text[:strings.LastIndex(strings.TrimSpace(text), "\n")+1] }),
				"end is missing")
			flipped := bytes.Clone(file)
			flipped[len(flipped)/2] ^= 1
			_, err := c.push(s.Context(), flipped)
			require.ErrorIs(s, err, ErrCourier)
			require.Empty(s, s.calls())

			receipts := c.carry(file)
			requireRefused(receipts, "landfall ams import")
			_, err = s.relay.ImportReceipts(s.Context(), bytes.NewReader(file), "")
			require.ErrorContains(s, err, "landfall ams push")
			_, err = s.relay.ImportReceipts(s.Context(), bytes.NewReader(receipts), "")
			require.ErrorIs(s, err, ErrUntrusted)
			require.ErrorContains(s, err, c.key.Public().Fingerprint())
			other := newSite(s.T)
			_, err = other.relay.ImportReceipts(s.Context(), bytes.NewReader(receipts), c.key.Public().Fingerprint())
			require.ErrorContains(s, err, "of another site")
			require.Empty(s, s.recorded(id).SubscriptionID, "no receipt was applied")
			c.bring(receipts)
			s.requireSent(id)
		}},
		{43, "renamed after the export", func(s *site) {
			id := s.register("one")
			c, file := s.courier(), s.export()
			s.rename(id, "two")
			receipts := c.carry(file)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "one"})
			c.bring(receipts)
			require.Equal(s, ClusterWaiting, s.line(id).State, "the newer name still waits")
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			s.requireSent(id)
		}},
		{44, "a lost courier file is found after the online report", func(s *site) {
			old := s.reserved("old")
			id := s.register("one")
			s.rename(old, "older")
			c, file := s.courier(), s.export()
			require.ErrorIs(s, s.relay.Revoke(s.Context(), "99"), ErrNoExport)
			export := s.recorded(id).Lease.Export
			require.NoError(s, s.relay.Revoke(s.Context(), export))
			require.ErrorIs(s, s.relay.Revoke(s.Context(), export), ErrNoExport)
			s.rename(id, "two")
			s.rename(old, "newest")
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			held := s.recorded(id)
			receipts := c.carry(file)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "two"})
			s.requireRow(old, "Reserved", map[string]any{"display_name": "newest"})
			require.Equal(s, Imported{Already: 2}, c.bring(receipts))
			require.Equal(s, held, s.recorded(id))
			s.requireSent(id)
			s.requireSent(old)
			require.Len(s, s.calls("create"), 1)
		}},
		{46, "renamed here and in OCM, reported by a courier", func(s *site) {
			id := s.reserved("one")
			s.rename(id, "ours")
			s.ams.Edit(s.recorded(id).SubscriptionID, map[string]any{"display_name": "theirs"})
			c := s.courier()
			require.Equal(s, Imported{Stopped: 1}, c.bring(c.carry(s.export())))
			s.requireRow(id, "Reserved", map[string]any{"display_name": "theirs"})
			s.requireStopped(id, outbox.Attention, `"theirs"`)
			require.NoError(s, s.relay.Retry(s.Context(), id, "Ann"))
			s.settle(soon)
			s.requireRow(id, "Reserved", map[string]any{"display_name": "ours"})
		}},
	})
}

// disputed returns a cluster whose name was changed here and in OCM, after a courier reported the
// conflict, and the receipts with the conflict.
func (s *site) disputed(c *courier) (id string, receipts []byte) {
	s.Helper()
	id = s.reserved("one")
	s.rename(id, "ours")
	s.ams.Edit(s.recorded(id).SubscriptionID, map[string]any{"display_name": "theirs"})
	receipts = c.carry(s.export())
	require.Equal(s, Imported{Stopped: 1}, c.bring(receipts))
	s.requireStopped(id, outbox.Attention, "try again to overwrite")
	return id, receipts
}

// The site has no connection of its own, so the next courier file must carry the decision.
func TestCourier_carriesDecisionToOverwrite(t *testing.T) {
	s := newSite(t)
	c := s.courier()
	id, _ := s.disputed(c)
	require.NoError(t, s.relay.Retry(t.Context(), id, "Ann"))
	require.Equal(t, Imported{Applied: 1}, c.bring(c.carry(s.export())))
	s.requireRow(id, "Reserved", map[string]any{"display_name": "ours"})
	s.requireSent(id)

	// the decision is used up
	s.rename(id, "mine")
	s.ams.Edit(s.recorded(id).SubscriptionID, map[string]any{"display_name": "theirs"})
	require.Equal(t, Imported{Stopped: 1}, c.bring(c.carry(s.export())))
	s.requireRow(id, "Reserved", map[string]any{"display_name": "theirs"})
}

// A person decided about one value in AMS. Another value is another question.
func TestCourier_decisionIsAboutTheValueSeen(t *testing.T) {
	s := newSite(t)
	c := s.courier()
	id, _ := s.disputed(c)
	require.NoError(t, s.relay.Retry(t.Context(), id, "Ann"))
	s.ams.Edit(s.recorded(id).SubscriptionID, map[string]any{"display_name": "theirs again"})
	require.Equal(t, Imported{Stopped: 1}, c.bring(c.carry(s.export())))
	s.requireRow(id, "Reserved", map[string]any{"display_name": "theirs again"})
	s.requireStopped(id, outbox.Attention, `"theirs again"`)
	require.NoError(t, s.relay.Retry(t.Context(), id, "Ann"))
	require.Equal(t, Imported{Applied: 1}, c.bring(c.carry(s.export())))
	s.requireRow(id, "Reserved", map[string]any{"display_name": "ours"})
}

func TestCourier_oldReceiptsKeepDecision(t *testing.T) {
	s := newSite(t)
	c := s.courier()
	id, receipts := s.disputed(c)
	require.NoError(t, s.relay.Retry(t.Context(), id, "Ann"))
	require.Equal(t, Imported{Already: 1}, c.bring(receipts))
	require.Equal(t, Imported{Applied: 1}, c.bring(c.carry(s.export())))
	s.requireRow(id, "Reserved", map[string]any{"display_name": "ours"})
}

// Receipts about clusters that wait are not counted as confirmed.
func TestCourier_countsWaitingClusters(t *testing.T) {
	s := newSite(t)
	known := s.reserved("known")
	s.rename(known, "renamed")
	s.register("created")
	c, file := s.courier(), s.export()
	s.ams.Break(amstest.Fault{Op: "create", Times: 1, Do: amstest.CommitThenDrop()})
	s.ams.Break(amstest.Fault{Op: "update", Times: 1, Do: amstest.DropBefore()})
	require.Equal(t, Imported{Later: 2}, c.bring(c.carry(file)))
	s.clock.Advance(soon)
	require.Equal(t, Imported{Applied: 2}, c.bring(c.carry(file)))
}

func TestCourier_clusterDeletedDuringLease(t *testing.T) {
	s := newSite(t)
	id := s.register("one")
	c, file := s.courier(), s.export()
	s.delete(id)
	receipts := c.carry(file)
	s.requireRow(id, "Reserved", nil)
	c.bring(receipts)
	s.settle(soon)
	s.requireGone(id)
}

func countLater(s *site, receipts []byte) int {
	file, err := ReadCourier(bytes.NewReader(receipts), Receipts, nil)
	require.NoError(s, err)
	later := 0
	for _, entry := range file.Entries {
		if entry.Outcome == "later" {
			later++
		}
	}
	return later
}

// repack changes the text of a courier file.
func repack(s *site, file []byte, alter func(string) string) []byte {
	s.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(s, err)
	text, err := io.ReadAll(zip)
	require.NoError(s, err)
	var out bytes.Buffer
	again := gzip.NewWriter(&out)
	_, err = again.Write([]byte(alter(string(text))))
	require.NoError(s, err)
	require.NoError(s, again.Close())
	return out.Bytes()
}

func FuzzReadCourier(f *testing.F) {
	key, err := sitekey.LoadOrCreate(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	var out bytes.Buffer
	file := CourierFile{Header: CourierHeader{Kind: Export, Export: "1", Site: key.Public().Fingerprint()},
		Entries: []CourierEntry{{ClusterID: "a"}}}
	if err := WriteCourier(&out, key, file); err != nil {
		f.Fatal(err)
	}
	zip, err := gzip.NewReader(&out)
	if err != nil {
		f.Fatal(err)
	}
	text, err := io.ReadAll(zip)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, err := zip.Write(text)
		require.NoError(t, err)
		require.NoError(t, zip.Close())
		read, err := ReadCourier(&packed, Export, nil)
		if err != nil {
			require.ErrorIs(t, err, ErrCourier)
			return
		}
		_, err = json.Marshal(read.Entries)
		require.NoError(t, err)
	})
}
