package appliance_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	corev1 "k8s.io/api/core/v1"

	"landfall/appliance/keyring"
	"landfall/store"
	"landfall/store/seal"
)

// uuids matches the IDs in an object.
var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// traces holds texts that must not remain after the deletion of objects.
type traces struct {
	names   map[string]bool // names and IDs
	secrets map[string]bool
}

func newTraces(names ...string) *traces {
	m := &traces{names: map[string]bool{}, secrets: map[string]bool{}}
	for _, name := range names {
		m.names[name] = true
	}
	return m
}

// idsOf adds the IDs in observed objects.
func (m *traces) idsOf(shown []observation) {
	for _, s := range shown {
		for _, id := range uuids.FindAllString(s.Object, -1) {
			m.names[id] = true
		}
	}
}

// secretsOf adds the values of a list of Secrets.
func (m *traces) secretsOf(t *testing.T, list string) {
	t.Helper()
	var secrets corev1.SecretList
	require.NoError(t, json.Unmarshal([]byte(list), &secrets))
	for _, secret := range secrets.Items {
		for _, value := range secret.Data {
			if len(value) >= 12 { // shorter values occur by chance
				m.secrets[strings.TrimSpace(string(value))] = true
			}
		}
	}
}

// in returns a name or kind of secret that a text contains.
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

// openRow returns the clear content of a row in the database's file.
func openRow(t *testing.T, ring *seal.Ring, bucket string, key, value []byte) []byte {
	t.Helper()
	const header = 32 // of a row in the bucket data
	at := 0
	switch bucket {
	case "data":
		at = header
	case "log":
		length, n := binary.Uvarint(value[1:])
		at = 1 + n + int(length)
	}
	if at == 0 || at == len(value) {
		return value
	}
	plain, err := ring.Open(value[at:], slices.Concat(key, value[:at]))
	require.NoError(t, err, "%s %q", bucket, key)
	return slices.Concat(value[:at], plain)
}

// requireNoTrace searches each bucket of a stopped appliance's database and each file in its data
// directory. Names may remain in the journal, which consists of the change log and the events, and
// in the notifications, but secrets may not. The conditions that were notified of are forgotten an
// hour after their end. If AMS is enabled, the pending deletion for AMS may also remain.
func requireNoTrace(t *testing.T, dir string, m *traces, amsWaits bool) {
	t.Helper()
	require.NotEmpty(t, m.secrets)
	require.Greater(t, len(m.names), 5)
	keys := keyring.New(dir, keyring.Options{})
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true, BlobGrace: time.Nanosecond, Keys: keys.Open})
	require.NoError(t, err)
	require.NoError(t, db.CollectBlobs(t.Context()), "unreferenced blobs are deleted")
	require.NoError(t, db.Close())

	file, err := bolt.Open(filepath.Join(dir, store.FileName), 0o600, &bolt.Options{ReadOnly: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	rows, journal, notices := 0, 0, 0
	require.NoError(t, file.View(func(tx *bolt.Tx) error {
		return tx.ForEach(func(bucket []byte, in *bolt.Bucket) error {
			return in.ForEach(func(key, value []byte) error {
				rows++
				value = openRow(t, keys.Ring(), string(bucket), key, value)
				kept := string(bucket) == "log" || bytes.HasPrefix(key, []byte("/events/")) ||
					bytes.HasPrefix(key, []byte("/notifications/")) || bytes.HasPrefix(key, []byte("/conditions/")) ||
					bytes.HasPrefix(key, []byte("/controllers/")) // unfinished work; the next start ends it
				if amsWaits && (bytes.HasPrefix(key, []byte("/subscriptions/")) || bytes.HasPrefix(key,
					[]byte("deadlines/subscriptions-waiting/"))) {
					notices++
					kept = true
				}
				for _, text := range [][]byte{key, value} {
					if mark, found := m.in(text, !kept); found {
						require.Fail(t, "the store contains a trace", "%s in %s %q: %.300q", mark, bucket, key, value)
					}
				}
				if _, found := m.in(value, true); found && kept {
					journal++
				}
				return nil
			})
		})
	}))
	require.Positive(t, journal, "the journal contains the names")
	if amsWaits {
		require.Equal(t, 3, notices, "one cluster is pending for AMS")
	}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		// The audit trail names deleted objects on purpose.
		if err != nil || entry.IsDir() || entry.Name() == store.FileName ||
			slices.Contains([]string{"os-images", "audit"}, filepath.Base(filepath.Dir(path))) {
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
				require.Fail(t, "a file contains a trace", "%s in %s", mark, relative)
			}
		}
		return nil
	}))
	t.Logf("%d rows have no trace of %d names and %d secrets, but for %d of the journal", rows, len(m.names),
		len(m.secrets), journal)
}
