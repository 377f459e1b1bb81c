package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/appliance/command/outcome"
	"landfall/appliance/fleet"
	"landfall/appliance/journal"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// journalFile writes a journal of two steps.
func journalFile(t *testing.T) (path string, key *sitekey.Key) {
	t.Helper()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second := []byte(`{"api":{"name":"demo","status":"error","status_info":"It broke."}}`)
	first := []byte(`{"api":{"name":"demo","status":"ready"}}`)
	builder, err := journal.NewBuilder(new(journal.Secrets).Redactor(), map[string][]byte{"/clusters/c": second})
	require.NoError(t, err)
	require.NoError(t, builder.Add(journal.Step{Revision: 2, At: noon.Add(time.Minute), Operation: "timer"},
		[]journal.Past{{Revision: 2, Key: "/clusters/c", Before: first, After: second}}))
	require.NoError(t, builder.Add(journal.Step{Revision: 1, At: noon, Operation: "v2RegisterCluster"},
		[]journal.Past{{Revision: 1, Key: "/clusters/c", After: first}}))
	recording, err := builder.Recording()
	require.NoError(t, err)
	recording.ClusterID, recording.ClusterName, recording.MadeAt = "c", "demo", noon.Add(time.Hour)
	key, err = sitekey.LoadOrCreate(t.TempDir())
	require.NoError(t, err)
	var out bytes.Buffer
	_, err = journal.Write(&out, recording, nil, []string{"Something is missing."}, "1.2.3", key)
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "demo.journal")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	return path, key
}

func TestJournalReplay_printsAndVerifies(t *testing.T) {
	path, key := journalFile(t)
	got := landfall(t, "journal", "replay", path, "--key", key.Public().Fingerprint())
	require.Zero(t, got.code, got.errOut)
	require.Contains(t, got.out, "signature  valid; the site's key is "+key.Public().Fingerprint())
	require.Contains(t, got.out, "note       Something is missing.")
	require.Contains(t, got.out,
		"#1    2026-03-01 12:00:00.000 UTC  +0s        user      RegisterCluster\n        cluster    cluster demo was "+
			"created, ready\n")
	require.Contains(t, got.out,
		"#2    2026-03-01 12:01:00.000 UTC  +1m0s      appliance timer\n        cluster    "+
			"cluster demo changed from ready to failed. It broke.\n")
	require.Contains(t, got.out, "The state matches the hash that the site signed.")

	var lines []map[string]any
	require.NoError(t, json.Unmarshal([]byte(landfall(t, "journal", "replay", path, "-o", "json").out), &lines))
	require.Len(t, lines, 4, "the beginning, two steps and the end")
	require.Contains(t, lines[3], "end")
}

func TestJournalExport_stoppedMemberIsNotOpened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	db, err := store.Open(t.Context(), dir, store.Options{})
	require.NoError(t, err)
	require.NoError(t, db.Close())
	require.NoError(t, (&fleet.State{Fleet: "fleet", Member: "two"}).Write(dir))
	got := landfall(t, "journal", "export", "--cluster", "demo", "--data-dir", dir)
	require.NotZero(t, got.code)
	require.Contains(t, got.errOut, "the member two of a fleet")
	require.NoFileExists(t, filepath.Join(dir, "data.key"))
}

func TestJournalReplay_stopsAtStep(t *testing.T) {
	path, _ := journalFile(t)
	for _, until := range []string{"1", "2026-03-01T12:00:30Z"} {
		got := landfall(t, "journal", "replay", path, "--until", until, "--show", "/clusters", "-q")
		require.Zero(t, got.code, got.errOut)
		require.Contains(t, got.out, "Stopped before step 2 of 2")
		require.Contains(t, got.out, `"status": "ready"`)
		require.NotContains(t, got.out, "#1")
	}
	got := landfall(t, "journal", "replay", path, "--until", "noon")
	require.Equal(t, outcome.Usage, got.code)
	require.Contains(t, got.errOut, "--until noon is neither the number of a step nor a time such as")
}

func TestJournalReplay_writesJSONLines(t *testing.T) {
	path, _ := journalFile(t)
	got := landfall(t, "journal", "replay", path, "--json")
	require.Zero(t, got.code, got.errOut)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, lines, 4)
	var last struct {
		End struct {
			Complete, Same bool
			Objects        int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(lines[3]), &last))
	require.True(t, last.End.Complete && last.End.Same)
	require.Equal(t, 1, last.End.Objects)
	require.Contains(t, lines[2], `"who":"appliance"`)
}

func TestJournalReplay_rejectsInvalidJournals(t *testing.T) {
	path, key := journalFile(t)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	altered := bytes.Clone(whole)
	altered[len(altered)/2] ^= 0xff
	for name, c := range map[string]struct {
		content   []byte
		arguments []string
		message   string
	}{
		"cut off": {whole[:len(whole)-9], nil, "this journal is incomplete; download it again"},
		"altered": {altered, nil, "journal"},
		"foreign": {[]byte("hello"), nil, "this is not a journal of Landfall"},
		"another site": {whole, []string{"--key", "SHA256:other"}, "is signed with the key " +
			key.Public().Fingerprint() + ", not with SHA256:other: the journal belongs to another site"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.journal")
			require.NoError(t, os.WriteFile(file, c.content, 0o600))
			got := landfall(t, append([]string{"journal", "replay", file}, c.arguments...)...)
			require.Equal(t, outcome.Failure, got.code)
			require.Contains(t, got.errOut, c.message)
			require.Equal(t, 1, strings.Count(got.errOut, "\n"))
		})
	}
	got := landfall(t, "journal", "replay", filepath.Join(t.TempDir(), "missing"))
	require.Equal(t, outcome.Failure, got.code)
}

func TestJournalExport_errors(t *testing.T) {
	empty, held := t.TempDir(), t.TempDir()
	db, err := store.Open(t.Context(), held, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for name, c := range map[string]struct {
		arguments []string
		code      int
		message   string
	}{
		"no cluster": {nil, outcome.Usage, "--cluster is missing"},
		"both": {[]string{"--cluster", "x", "--data-dir", "d", "--url", "u"}, outcome.Usage,
			"give either --data-dir"},
		"no data": {[]string{"--cluster", "x", "--data-dir", empty}, outcome.Failure,
			"it is not the data directory of an appliance; check --data-dir"},
		"a running one's": {[]string{"--cluster", "x", "--data-dir", held}, outcome.Failure,
			"omit --data-dir to use the running appliance"},
		"nobody listens": {[]string{"--cluster", "x", "--url", "http://127.0.0.1:1"}, outcome.Failure,
			"no appliance listens at http://127.0.0.1:1"},
		"a URL that is no": {[]string{"--cluster", "00000000-0000-4000-8000-000000000000", "--url", "http://a b"},
			outcome.Failure, "is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			got := landfall(t, append([]string{"journal", "export"}, c.arguments...)...)
			require.Equal(t, c.code, got.code)
			require.Contains(t, got.errOut, c.message)
		})
	}
	entries, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, entries, "the command created files in a directory without an appliance")
}
