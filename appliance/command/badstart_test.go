package command

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/appliance/command/outcome"
	"landfall/appliance/dataversion"
	"landfall/store"
)

// requireRefusedStart runs serve on a data directory. It asserts that serve ends with exit code 1
// and prints one line that contains all texts.
func requireRefusedStart(t *testing.T, dir string, arguments []string, texts ...string) {
	t.Helper()
	got := landfall(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--data-dir", dir}, arguments...)...)
	t.Log(got.errOut)
	require.Equal(t, outcome.Failure, got.code)
	require.Empty(t, got.out)
	require.Equal(t, 1, strings.Count(got.errOut, "\n"), "more than one line: %s", got.errOut)
	for _, text := range texts {
		require.Contains(t, got.errOut, text)
	}
}

// database creates a database with 100 rows in a data directory and returns the path of its file.
func database(t *testing.T, dir string) string {
	t.Helper()
	db, err := store.Open(t.Context(), dir, store.Options{})
	require.NoError(t, err)
	rows := store.NewBucket[string]("rows", 1)
	text := strings.Repeat("x", 4000)
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
		for i := range 100 {
			if err := rows.Put(tx, strconv.Itoa(i), &text); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, db.Close())
	return filepath.Join(dir, "landfall.db")
}

func TestServe_damagedOrNewerDatabase(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, path string)
		texts  []string
	}{
		"truncated": {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 40<<10)) },
			[]string{"is damaged", "restore it from a backup, or move it away to start empty"}},
		"empty": {func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, 0)) },
			[]string{"is damaged", "the file is empty"}},
		"text file": {func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, []byte("hello\n"),
				0o600))
		},
			[]string{"is damaged"}},
		"garbage": {func(t *testing.T, path string) {
			file, err := os.OpenFile(path, os.O_WRONLY, 0)
			require.NoError(t, err)
			_, err = file.Write(bytes.Repeat([]byte{0xa5}, 256<<10))
			require.NoError(t, errors.Join(err, file.Close()))
		}, []string{"is damaged"}},
		"newer": {func(t *testing.T, path string) {
			file, err := bolt.Open(path, 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, file.Update(func(tx *bolt.Tx) error {
				return tx.Bucket([]byte("meta")).Put([]byte("schema"), binary.BigEndian.AppendUint64(nil, 9))
			}))
			require.NoError(t, file.Close())
		}, []string{"was written by a newer Landfall (schema 9, this program supports 4)",
			"use the newer Landfall, or restore a backup"}},
		"newer schema of a known program": {func(t *testing.T, path string) {
			file, err := bolt.Open(path, 0o600, nil)
			require.NoError(t, err)
			require.NoError(t, file.Update(func(tx *bolt.Tx) error {
				return tx.Bucket([]byte("meta")).Put([]byte("schema"), binary.BigEndian.AppendUint64(nil, 9))
			}))
			require.NoError(t, file.Close())
			writeVersion(t, path, `{"version":1,"target":1,"program":"v9.1.0"}`)
		}, []string{"use Landfall v9.1.0 or a newer one, or restore a backup"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := database(t, dir)
			c.damage(t, path)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			requireRefusedStart(t, dir, nil, append(c.texts, "the database "+path)...)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(before, after), "serve changed the database, which may be recoverable")
		})
	}
}

func writeVersion(t *testing.T, database, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(database), dataversion.FileName), []byte(text), 0o600))
}

func TestServe_newerData(t *testing.T) {
	dir := t.TempDir()
	writeVersion(t, database(t, dir), `{"version":1,"target":99,"program":"v9.1.0","backup":"backups/b.backup"}`)
	texts := []string{"the data directory " + dir + " has data version 99", "use Landfall v9.1.0 or a newer one",
		"landfall restore " + filepath.Join(dir, "backups/b.backup") + " --data-dir"}
	requireRefusedStart(t, dir, nil, texts...)
	got := landfall(t, "check", "--data-dir", dir, "--repair")
	require.Equal(t, outcome.Failure, got.code)
	for _, text := range texts {
		require.Contains(t, got.errOut, text)
	}
}

func TestServe_dataDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.Context(), dir, store.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	requireRefusedStart(t, dir, nil, "the data directory "+dir+" is held by process "+strconv.Itoa(os.Getpid())+
		" since ", "stop that process, or choose another data directory")
}

func TestServe_portInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, taken.Close()) }()
	dir := filepath.Join(t.TempDir(), "data")
	requireRefusedStart(t, dir, []string{"--listen", taken.Addr().String()},
		"another program already listens on "+taken.Addr().String()+
			"; stop that program, or choose another address with --listen")
	require.NoDirExists(t, dir, "serve left a data directory behind")
}

func TestServe_unreadableMirrorRules(t *testing.T) {
	for name, invalid := range map[string]struct {
		flag, content string
		texts         []string
	}{
		"a CA bundle without certificates":    {"--mirror-ca-bundle", "hello", []string{"certificate"}},
		"a registries.conf with invalid TOML": {"--mirror-registries-conf", "[[registry\n", []string{"line 1"}},
		"mirror sets with invalid YAML":       {"--mirror-idms-files", "kind: [", []string{"YAML"}},
		"mirror sets without a source": {"--mirror-idms-files",
			"apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nmetadata: {name: a}\nspec: " +
				"{imageDigestMirrors: [{mirrors: [b.example.com/c]}]}\n", []string{"source"}},
		"a registries.conf without location": {"--mirror-registries-conf", "[[registry]]\nblocked = true\n",
			[]string{"location"}},
	} {
		t.Run(name, func(t *testing.T) {
			directory := t.TempDir()
			path := filepath.Join(directory, "given")
			require.NoError(t, os.WriteFile(path, []byte(invalid.content), 0o600))
			requireRefusedStart(t, filepath.Join(directory, "data"), []string{invalid.flag, path},
				append(invalid.texts, path)...)
			require.NoDirExists(t, filepath.Join(directory, "data"))
		})
	}
}

// unprivileged reports whether the calling test must continue in this process, because it has no
// root privileges or is the child process. Otherwise, unprivileged runs the test in a child
// process, which drops its privileges.
func unprivileged(t *testing.T, dir string) bool {
	t.Helper()
	const directory = "TEST_READ_ONLY_DIRECTORY"
	if os.Getuid() != 0 || os.Getenv(directory) != "" {
		return true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	child.Env = append(os.Environ(), directory+"="+dir)
	out, err := child.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	return false
}

func TestServe_readOnlyDataDirectory(t *testing.T) {
	dir := os.Getenv("TEST_READ_ONLY_DIRECTORY")
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "data")
		database(t, dir)
		require.NoError(t, os.Chmod(dir, 0o555))
		t.Cleanup(func() { require.NoError(t, os.Chmod(dir, 0o755)) })
	}
	if !unprivileged(t, dir) {
		return
	}
	if os.Getuid() == 0 {
		require.NoError(t, errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)))
	}
	requireRefusedStart(t, dir, nil, "the data directory "+dir+" may not be read and written by user "+
		strconv.Itoa(os.Getuid()),
		"give it to that user, or choose another data directory")
	requireRefusedStart(t, filepath.Join(dir, "below"), nil, "the data directory "+filepath.Join(dir, "below"),
		"choose another data directory")
}

// TestServe_forbidsCoreFiles starts the appliance in a child process, because a process cannot
// raise the limit again.
func TestServe_forbidsCoreFiles(t *testing.T) {
	const isChild = "TEST_CORE_FILES"
	if os.Getenv(isChild) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), isChild+"=yes")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS")
		return
	}
	requireRefusedStart(t, filepath.Join(t.TempDir(), "data"), []string{"--mirror-ca-bundle", "/dev/null"})
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_CORE, &limit))
	require.LessOrEqual(t, limit.Cur, uint64(1))
	require.LessOrEqual(t, limit.Max, uint64(1))
}
