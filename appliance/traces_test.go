package appliance_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"

	"landfall/store"
)

// uuids finds the ids in an object: its own, and those of what it describes.
var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// marks is what something may be known by.
type traces struct {
	names   map[string]bool // names and ids
	secrets map[string]bool
}

func newTraces(names ...string) *traces {
	m := &traces{names: map[string]bool{}, secrets: map[string]bool{}}
	for _, name := range names {
		m.names[name] = true
	}
	return m
}

// idsOf adds the ids in what was shown.
func (m *traces) idsOf(shown []observation) {
	for _, s := range shown {
		for _, id := range uuids.FindAllString(s.Object, -1) {
			m.names[id] = true
		}
	}
}

// secretsOf adds what a list of Secrets holds.
func (m *traces) secretsOf(t *testing.T, list string) {
	t.Helper()
	var secrets corev1.SecretList
	require.NoError(t, json.Unmarshal([]byte(list), &secrets))
	for _, secret := range secrets.Items {
		for _, value := range secret.Data {
			if len(value) >= 12 { // what is shorter stands anywhere
				m.secrets[strings.TrimSpace(string(value))] = true
			}
		}
	}
}

// in finds one of them in a text.
func (m *traces) in(text []byte, names bool) (string, bool) {
	for secret := range m.secrets {
		if bytes.Contains(text, []byte(secret)) {
			return "a secret", true
		}
	}
	for name := range m.names {
		if names && bytes.Contains(text, []byte(name)) {
			return name, true
		}
	}
	return "", false
}

// requireNoTrace looks for marks in all that a dead appliance has left: each bucket of its
// database, and each file beside it. What may be is the journal, which is the database's own log
// and the events, and it has no secrets; and, where AMS is spoken to, what it must yet hear: a row,
// and since when it waits.
func requireNoTrace(t *testing.T, dir string, m *traces, amsWaits bool) {
	t.Helper()
	require.NotEmpty(t, m.secrets)
	require.Greater(t, len(m.names), 5)
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true, BlobGrace: time.Nanosecond})
	require.NoError(t, err)
	require.NoError(t, db.CollectBlobs(t.Context()), "what no row refers to goes within an hour")
	require.NoError(t, db.Close())

	file, err := bolt.Open(filepath.Join(dir, store.FileName), 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	rows, journal, notices := 0, 0, 0
	require.NoError(t, file.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(bucket []byte, in *bolt.Bucket) error {
			return in.ForEach(func(key, value []byte) error {
				rows++
				kept := string(bucket) == "log" || bytes.HasPrefix(key, []byte("/events/"))
				if amsWaits && (bytes.HasPrefix(key, []byte("/subscriptions/")) || bytes.HasPrefix(key,
					[]byte("deadlines/subscriptions-waiting/"))) {
					notices++
					kept = true
				}
				for _, text := range [][]byte{key, value} {
					if mark, found := m.in(text, !kept); found {
						require.Fail(t, "the store has a trace", "%s in %s %q: %.300q", mark, bucket, key, value)
					}
				}
				if _, found := m.in(value, true); found && kept {
					journal++
				}
				return nil
			})
		})
	}))
	require.Positive(t, journal, "the journal tells of it")
	if amsWaits {
		require.Equal(t, 3, notices, "AMS must hear of one cluster")
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == store.FileName || filepath.Dir(path) == filepath.Join(dir,
			"os-images") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		for _, text := range [][]byte{text, []byte(relative)} {
			if mark, found := m.in(text, true); found {
				require.Fail(t, "a file has a trace", "%s in %s", mark, relative)
			}
		}
		return nil
	}))
	t.Logf("%d rows have no trace of %d names and %d secrets, but for %d of the journal", rows, len(m.names),
		len(m.secrets), journal)
}
