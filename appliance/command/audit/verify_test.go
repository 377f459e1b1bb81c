package audit

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/audittrail"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// removedOldest returns an export of a trail whose oldest files were removed, and the fingerprint
// of its key.
func removedOldest(t *testing.T) (exported []byte, key string) {
	t.Helper()
	dir := t.TempDir()
	site, err := sitekey.LoadOrCreate(dir)
	require.NoError(t, err)
	db, err := store.Open(t.Context(), dir, store.Options{NoSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	trail, err := audittrail.Open(audittrail.Options{Dir: filepath.Join(dir, audittrail.DirName), DB: db, Key: site,
		Clock: clockwork.NewFakeClock(), Bytes: 256 << 10})
	require.NoError(t, err)
	defer func() { require.NoError(t, trail.Close()) }()
	for range 400 {
		require.NoError(t, trail.Record(t.Context(), audittrail.Entry{Path: strings.Repeat("p", 1<<10)}))
	}
	var content bytes.Buffer
	require.NoError(t, trail.Export(t.Context(), &content, 0))
	return content.Bytes(), site.Public().Fingerprint()
}

func TestVerify_exportWithoutItsOldestRecordsIsIntact(t *testing.T) {
	exported, key := removedOldest(t)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	verify := func(content []byte) string {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		var out bytes.Buffer
		v := verification{trusted: []string{key}}
		require.NoError(t, v.copied(&out, path, audittrail.Expect{Trusted: v.trusted}))
		require.Contains(t, out.String(), "were removed, because the space for the trail was used up")
		return out.String()
	}
	require.Contains(t, verify(exported), "intact: the trail was neither altered nor shortened")
	head := bytes.LastIndexByte(exported[:len(exported)-1], '\n') + 1
	require.Contains(t, verify(exported[:head]), "no problem was found; see the notes")
}
