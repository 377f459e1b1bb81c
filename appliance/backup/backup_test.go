package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"filippo.io/age"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/backup"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/hosted/arm"
	hosted "landfall/appliance/hosted/record"
	"landfall/appliance/keyring"
	"landfall/appliance/process/ownertest"
	"landfall/randtest"
	"landfall/store"
)

var kills = flag.Int("kills", 30, "number of random kills during backups and restores")

type item struct {
	Name string `json:"name"`
}

var (
	items    = store.NewBucket[item]("items", 1)
	contents = store.NewFiles("contents")
	index    = store.NewIndex("items-by-name")
	now      = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

const rows = 3000

// source is an open data directory with rows and a large content.
type source struct {
	backup.Source
	dir     string
	keys    *keyring.Keyring
	content string
}

func newSource(t testing.TB) *source {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	keys := keyring.New(dir, keyring.Options{})
	s := &source{dir: dir, keys: keys, content: strings.Repeat("content ", 40_000)}
	require.NoError(t, os.Mkdir(s.dir, 0o700))
	db, err := store.Open(t.Context(), s.dir, store.Options{Keys: keys.Open, NoSync: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	at := now
	s.Source = backup.Source{DB: db, Dir: s.dir, Program: "test", SealedWith: string(keys.With()),
		DataKey: keys.Content, ExportKeys: keys.Export, Now: func() time.Time { at = at.Add(time.Second); return at }}
	for n := 0; n < rows; n += 100 {
		require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error {
			for i := n; i < n+100; i++ {
				key := fmt.Sprintf("%05d", i)
				if err := errors.Join(items.Put(tx, key, &item{strings.Repeat(key, 60)}),
					index.Add(tx, key)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	staged, err := db.Stage(t.Context(), strings.NewReader(s.content))
	require.NoError(t, err)
	require.NoError(t, db.Update(t.Context(), func(tx *store.Tx) error { return contents.Put(tx, "big", staged, now) }))
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "site.key"), []byte("site key"), 0o600))
	return s
}

func (s *source) stream(t testing.TB, withKey bool) []byte {
	t.Helper()
	var stream bytes.Buffer
	require.NoError(t, s.Write(t.Context(), &stream, withKey))
	return stream.Bytes()
}

func target(dir string) *backup.Target {
	return &backup.Target{Dir: dir, Now: func() time.Time { return now }}
}

// requireWhole requires that a restored directory has everything.
func requireWhole(t *testing.T, dir, content string) {
	t.Helper()
	db, err := store.Open(t.Context(), dir, store.Options{Keys: keyring.New(dir, keyring.Options{}).Open, NoSync: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.View(func(tx *store.Tx) error {
		found := 0
		require.NoError(t, items.Each(tx, "", func(key string, i *item) error {
			require.Equal(t, strings.Repeat(key, 60), i.Name)
			require.True(t, index.Exists(tx, key))
			found++
			return nil
		}))
		require.Equal(t, rows, found)
		return nil
	}))
	file, _, err := contents.Open(db, "big")
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	require.Equal(t, content, string(text))
	require.NoError(t, file.Close())
	require.Empty(t, db.Damage())
	report, err := db.Check(t.Context())
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	text, err = os.ReadFile(filepath.Join(dir, "site.key"))
	require.NoError(t, err)
	require.Equal(t, "site key", string(text))
}

func TestBackup_restoredDirectoryHasEverything(t *testing.T) {
	s := newSource(t)
	dir := filepath.Join(t.TempDir(), "restored")
	to, stream := target(dir), s.stream(t, true)
	var progress bytes.Buffer
	to.Progress = &progress
	manifest, err := to.Restore(t.Context(), bytes.NewReader(stream))
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(stream, progress.Bytes()), "the progress is that of the backup")
	require.Greater(t, int64(progress.Len()), manifest.Bytes())
	require.Equal(t, s.DB.Revision(), manifest.Revision)
	requireWhole(t, dir, s.content)
	require.NoDirExists(t, dir+".restoring")
	var held []backup.Marker
	hold := func(m backup.Marker) error { held = append(held, m); return nil }
	damaged := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(damaged, backup.MarkerName), []byte("{}x"), 0o600))
	require.NoError(t, backup.AfterRestore(damaged, hold))
	require.Len(t, held, 1, "a damaged marker still holds")
	held = nil
	require.NoError(t, backup.AfterRestore(dir, hold))
	require.NoError(t, backup.AfterRestore(dir, hold), "the second start holds nothing")
	require.Len(t, held, 1)
	require.Equal(t, manifest.Time, held[0].Backup)
}

// TestBackup_everyFile backs up what nothing can derive again, and leaves the rest out.
func TestBackup_everyFile(t *testing.T) {
	s := newSource(t)
	saved := []string{"site.key", "ca.crt", "ca.key", "clients-ca.crt", "clients-ca.key", "ams.key",
		"acme/acme_account", "audit/1.log", "os-images/1.json"}
	left := []string{"replica-id", "setup-code", "scrub.json", "version.json", "damage.jsonl", "installers/1",
		"registry/1", "backups/1.backup", "os-images/1.part", "site.key.123"}
	for _, name := range slices.Concat(saved, left) {
		path := filepath.Join(s.dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte("the content of "+name), 0o600))
	}
	unknown, err := backup.Unknown(s.dir)
	require.NoError(t, err)
	require.Empty(t, unknown)
	dir := filepath.Join(t.TempDir(), "restored")
	_, err = target(dir).Restore(t.Context(), bytes.NewReader(s.stream(t, true)))
	require.NoError(t, err)
	for _, name := range saved {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, "the content of "+name, string(text))
	}
	for _, name := range left {
		require.NoFileExists(t, filepath.Join(dir, name))
	}
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, "new.key"), nil, 0o600))
	unknown, err = backup.Unknown(s.dir)
	require.NoError(t, err)
	require.Equal(t, []string{"new.key"}, unknown)
}

// Live ISOs can be imported again. Nothing can make the records of the audit trail again.
func TestFileNames_largeFilesOfTheAuditTrail(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"audit/1.jsonl", "os-images/1.iso"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, 65<<20))
	}
	names, err := (&backup.Source{Dir: dir}).FileNames()
	require.NoError(t, err)
	require.Contains(t, names, "audit/1.jsonl")
	require.NotContains(t, names, "os-images/1.iso")
}

func TestBackup_withoutKeyNeedsTheKeyOfTheSite(t *testing.T) {
	s := newSource(t)
	dir := filepath.Join(t.TempDir(), "restored")
	_, err := target(dir).Restore(t.Context(), bytes.NewReader(s.stream(t, false)))
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, keyring.DefaultKeyFile))
	_, err = store.Open(t.Context(), dir, store.Options{Keys: keyring.New(dir, keyring.Options{}).Open})
	require.ErrorContains(t, err, "seal.key")
	key, err := os.ReadFile(filepath.Join(s.dir, keyring.DefaultKeyFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, keyring.DefaultKeyFile), key, 0o600))
	requireWhole(t, dir, s.content)
}

func TestRestore_neverOverwrites(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	_, err := target(dir).Restore(t.Context(), bytes.NewReader(s.stream(t, true)))
	require.ErrorAs(t, err, new(*backup.NotEmptyError))
	require.FileExists(t, filepath.Join(dir, "mine"))
}

// A restore renames its result to the directory at the end, which is not possible at a mount point.
func TestRestore_refusesAMountPointFirst(t *testing.T) {
	_, err := target("/dev").Restore(t.Context(), iotest.ErrReader(errors.New("the backup was read")))
	require.EqualError(t, err, "/dev is a mount point, which a restore can't replace; name a new directory in it, "+
		"such as /dev/data")
}

func TestRestore_symbolicLinkNamesTheDirectory(t *testing.T) {
	s := newSource(t)
	disk, link := filepath.Join(t.TempDir(), "disk"), filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(disk, link))
	stream := s.stream(t, true)
	_, err := target(link).Restore(t.Context(), bytes.NewReader(stream))
	require.ErrorContains(t, err, "is a symbolic link to a directory that does not exist")
	require.NoError(t, os.Mkdir(disk, 0o700))
	_, err = target(link).Restore(t.Context(), bytes.NewReader(stream))
	require.NoError(t, err)
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, disk, to)
	requireWhole(t, disk, s.content)
}

// The appliance runs as another user than root, who may restore its data.
func TestRestore_belongsToTheOwner(t *testing.T) {
	stream := newSource(t).stream(t, true)
	for name, path := range map[string]string{"of the empty directory": ".", "of the directory above": "data"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "landfall")
			require.NoError(t, os.Mkdir(dir, 0o700))
			owner := ownertest.Give(t, dir)
			dir = filepath.Join(dir, path)
			_, err := target(dir).Restore(t.Context(), bytes.NewReader(stream))
			require.NoError(t, err)
			require.FileExists(t, filepath.Join(dir, store.FileName))
			ownertest.Require(t, dir, owner)
		})
	}
}

func TestRestore_damagedBackupIsRefused(t *testing.T) {
	stream := newSource(t).stream(t, true)
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		damaged := bytes.Clone(stream)
		if random.IntN(2) == 0 {
			damaged = damaged[:random.IntN(len(damaged)-2048)]
		} else {
			at := 512 + random.IntN(len(damaged)-3*1024)
			damaged[at] ^= 1 << random.IntN(8)
		}
		dir := filepath.Join(t.TempDir(), "restored")
		if _, err := target(dir).Restore(t.Context(), bytes.NewReader(damaged)); err == nil {
			continue // the bit was in the padding or in a time of the archive
		}
		require.NoDirExists(t, dir)
		require.NoDirExists(t, dir+".restoring")
	}
}

func TestRepository_secondBackupIsSmall(t *testing.T) {
	s := newSource(t)
	repository := &backup.Repository{Dir: filepath.Join(t.TempDir(), "backups")}
	first, err := repository.Receive(bytes.NewReader(s.stream(t, true)))
	require.NoError(t, err)
	require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error { return items.Put(tx, "zz", &item{"new"}) }))
	require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error { return items.Delete(tx, "zz") }))
	second, err := repository.Receive(bytes.NewReader(s.stream(t, true)))
	require.NoError(t, err)
	require.Less(t, second.Added, first.Added/2)
	removed, err := repository.Prune(1, second.Time)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	names, err := repository.Names()
	require.NoError(t, err)
	require.Equal(t, []string{second.Name}, names)
	requireRestorable(t, repository, names[0], s.content)
}

// eachFlip calls read with each damage of one bit of a file, which is whole again at the end.
func eachFlip(t *testing.T, path string, read func(name string)) {
	t.Helper()
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer file.Close()
	for at, was := range whole {
		for bit := range 8 {
			_, err := file.WriteAt([]byte{was ^ 1<<bit}, int64(at))
			require.NoError(t, err)
			read(fmt.Sprintf("bit %d of byte %d of %s", bit, at, path))
		}
		_, err := file.WriteAt([]byte{was}, int64(at))
		require.NoError(t, err)
	}
}

// TestRepository_everyFlippedBitIsRefused flips each bit of a manifest and of a list of objects. A
// flipped bit may give a file another name, or let a removal take an object that is needed.
func TestRepository_everyFlippedBitIsRefused(t *testing.T) {
	repository := &backup.Repository{Dir: filepath.Join(t.TempDir(), "backups")}
	received, err := repository.Receive(bytes.NewReader(newSource(t).stream(t, true)))
	require.NoError(t, err)
	base := filepath.Join(repository.Dir, "backups", received.Name)
	for suffix, read := range map[string]func() error{
		".json": func() error { return repository.Stream(received.Name, io.Discard) },
		".objects": func() error {
			_, err := repository.Objects(received.Name)
			return err
		},
	} {
		eachFlip(t, base+suffix, func(name string) { require.ErrorContains(t, read(), received.Name, name) })
		require.NoError(t, read())
	}
}

// TestRepository_earlierBackup reads a backup whose manifest and list have no checksum.
// TestRepository_damagedObjectIsReplaced damages the objects of a backup. The next one, which has
// the same contents, is whole.
func TestRepository_damagedObjectIsReplaced(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	for name, recipients := range map[string][]age.Recipient{"in clear": nil, "encrypted": {identity.Recipient()}} {
		t.Run(name, func(t *testing.T) {
			s := newSource(t)
			repository := &backup.Repository{Dir: t.TempDir(), Recipients: recipients}
			stream := s.stream(t, true)
			_, err := repository.Receive(bytes.NewReader(stream))
			require.NoError(t, err)
			objects, err := filepath.Glob(filepath.Join(repository.Dir, "objects", "*", "*"))
			require.NoError(t, err)
			require.NotEmpty(t, objects)
			for _, path := range objects {
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(path, append(text, "damage"...), 0o600))
			}
			received, err := repository.Receive(bytes.NewReader(stream))
			require.NoError(t, err)
			require.NoError(t, repository.Stream(received.Name, io.Discard, identity))
			for _, sum := range objects {
				content, err := repository.Open(filepath.Base(sum), identity)
				require.NoError(t, err)
				hash := sha256.New()
				_, err = io.Copy(hash, content)
				require.NoError(t, errors.Join(err, content.Close()))
				require.Equal(t, filepath.Base(sum), hex.EncodeToString(hash.Sum(nil)))
			}
		})
	}
}

func TestRepository_earlierBackup(t *testing.T) {
	s := newSource(t)
	repository := &backup.Repository{Dir: filepath.Join(t.TempDir(), "backups")}
	received, err := repository.Receive(bytes.NewReader(s.stream(t, true)))
	require.NoError(t, err)
	base := filepath.Join(repository.Dir, "backups", received.Name)
	text, err := json.Marshal(received.Manifest)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(base+".json", text, 0o600))
	list, err := os.ReadFile(base + ".objects")
	require.NoError(t, err)
	_, list, _ = bytes.Cut(list, []byte("\n"))
	require.NoError(t, os.WriteFile(base+".objects", list, 0o600))
	requireRestorable(t, repository, received.Name, s.content)
	require.NoError(t, repository.Remove(nil, nil))
	requireRestorable(t, repository, received.Name, s.content)
}

func requireRestorable(t *testing.T, repository *backup.Repository, name, content string, identities ...age.Identity) {
	t.Helper()
	var stream bytes.Buffer
	require.NoError(t, repository.Stream(name, &stream, identities...))
	dir := filepath.Join(t.TempDir(), "restored")
	_, err := target(dir).Restore(t.Context(), &stream)
	require.NoError(t, err)
	requireWhole(t, dir, content)
}

func TestRepository_encryptedForARecipient(t *testing.T) {
	s := newSource(t)
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	repository := &backup.Repository{Dir: t.TempDir(), Recipients: []age.Recipient{identity.Recipient()}}
	received, err := repository.Receive(bytes.NewReader(s.stream(t, true)))
	require.NoError(t, err)
	require.ErrorIs(t, repository.Stream(received.Name, io.Discard), backup.ErrEncrypted)
	_, err = repository.Restore(t.Context(), received.Name,
		&backup.Target{Dir: filepath.Join(t.TempDir(), "data"), Now: time.Now})
	require.EqualError(t, err, backup.ErrEncrypted.Error(), "it is not damaged")
	requireRestorable(t, repository, received.Name, s.content, identity)
}

func TestWriteFile_passphrase(t *testing.T) {
	s := newSource(t)
	recipient, err := age.NewScryptRecipient("correct horse")
	require.NoError(t, err)
	recipient.SetWorkFactor(10)
	path := filepath.Join(t.TempDir(), "backup.age")
	_, err = backup.WriteFile(path, bytes.NewReader(s.stream(t, true)), recipient)
	require.NoError(t, err)
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	identity, err := age.NewScryptIdentity("correct horse")
	require.NoError(t, err)
	stream, err := backup.Decrypt(file, identity)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "restored")
	_, err = target(dir).Restore(t.Context(), stream)
	require.NoError(t, err)
	requireWhole(t, dir, s.content)
}

func TestWriteFile_failureKeepsTheFormerBackup(t *testing.T) {
	s := newSource(t)
	path := filepath.Join(t.TempDir(), "backup.tar")
	_, err := backup.WriteFile(path, bytes.NewReader(s.stream(t, true)))
	require.NoError(t, err)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	stream := s.stream(t, true)
	_, err = backup.WriteFile(path, bytes.NewReader(stream[:len(stream)/2]))
	require.ErrorAs(t, err, new(*backup.IncompleteError))
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// childEnv names the work of a child process that is killed: its kind, the stream, the directory.
const childEnv = "LANDFALL_TEST_BACKUP"

func TestMain(m *testing.M) {
	if work := os.Getenv(childEnv); work != "" {
		if err := child(strings.Split(work, "|")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(work []string) error {
	stream, err := os.Open(work[1])
	if err != nil {
		return err
	}
	if work[0] == "restore" {
		_, err = target(work[2]).Restore(context.Background(), stream)
		return err
	}
	_, err = (&backup.Repository{Dir: work[2]}).Receive(stream)
	return err
}

// TestBackup_killsLeaveNothingHalfDone kills processes at random moments of backups into a
// directory and of restores. Each backup that is listed can be restored, and a restored directory
// is complete or does not exist.
func TestBackup_killsLeaveNothingHalfDone(t *testing.T) {
	s := newSource(t)
	dir := t.TempDir()
	repository := &backup.Repository{Dir: filepath.Join(dir, "repository")}
	listed, restored, killed := 0, 0, 0
	chance := randtest.New(t, 0)
	for n := range *kills {
		path := filepath.Join(dir, "stream")
		require.NoError(t, os.WriteFile(path, s.stream(t, true), 0o600))
		kind, to := "receive", repository.Dir
		if n%2 == 1 {
			kind, to = "restore", filepath.Join(dir, "restored")
		}
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), childEnv+"="+kind+"|"+path+"|"+to)
		require.NoError(t, process.Start())
		timer := time.AfterFunc(time.Duration(chance.IntN(250))*time.Millisecond, func() { _ = process.Process.Kill() })
		if err := process.Wait(); err != nil {
			killed++
		}
		timer.Stop()
		if kind == "restore" {
			if _, err := os.Stat(to); err == nil {
				restored++
				requireWhole(t, to, s.content)
				require.NoError(t, os.RemoveAll(to))
			}
			continue
		}
		names, err := repository.Names()
		require.NoError(t, err)
		if len(names) > listed {
			listed = len(names)
			requireRestorable(t, repository, names[len(names)-1], s.content)
		}
	}
	t.Logf("%d of %d processes were killed; %d backups and %d restores were complete", killed, *kills, listed, restored)
}

// gate blocks a writer after its first bytes, until it is opened.
type gate struct {
	bytes.Buffer
	started, open chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	select {
	case <-g.started:
	default:
		close(g.started)
		<-g.open
	}
	return g.Buffer.Write(p)
}

// TestBackup_keysAreRotatedMeanwhile rotates the data key after the snapshot of a backup. The rows
// of the snapshot are sealed with the older key, the file with the newer one.
func TestBackup_keysAreRotatedMeanwhile(t *testing.T) {
	for _, withKey := range []bool{false, true} {
		t.Run(fmt.Sprintf("withKey=%t", withKey), func(t *testing.T) {
			s := newSource(t)
			stream := &gate{started: make(chan struct{}), open: make(chan struct{})}
			ended := make(chan error, 1)
			go func() { ended <- s.Write(t.Context(), stream, withKey) }()
			<-stream.started
			require.NoError(t, s.keys.Rotate(t.Context(), s.DB))
			close(stream.open)
			require.NoError(t, <-ended)
			dir := filepath.Join(t.TempDir(), "restored")
			_, err := target(dir).Restore(t.Context(), &stream.Buffer)
			require.NoError(t, err)
			if !withKey {
				key, err := os.ReadFile(filepath.Join(s.dir, keyring.DefaultKeyFile))
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, keyring.DefaultKeyFile), key, 0o600))
			}
			requireWhole(t, dir, s.content)
		})
	}
}

// TestDescribe_newerInReality restores a backup of an appliance at work. The description names what
// may have changed in reality, and what waits for a person, and nothing else.
func TestDescribe_newerInReality(t *testing.T) {
	s := newSource(t)
	require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error {
		var errs []error
		for id, status := range map[string]string{"a": lifecycle.ClusterInstalling, "b": lifecycle.ClusterInstalled,
			"c": lifecycle.ClusterReady} {
			errs = append(errs, record.Clusters.Put(tx, id, &record.Cluster{API: models.Cluster{Name: "cluster-" + id,
				Status: &status}}))
		}
		for id, status := range map[string]string{"a": lifecycle.HostInstallingInProgress, "b": lifecycle.HostKnown} {
			errs = append(errs, record.Hosts.Put(tx, "env/"+id, &record.Host{API: models.Host{Status: &status}}))
		}
		for cid, state := range map[string]string{"a": hosted.Updating, "b": hosted.Succeeded} {
			id := arm.ID{Subscription: "s", Group: "g", Cluster: "hosted-" + cid}
			errs = append(errs, hosted.PutCluster(tx, &hosted.Cluster{CID: cid, Prefix: cid,
				Resource: hosted.Resource{ID: id, State: state}}))
		}
		return errors.Join(append(errs,
			outbox.RecordedRows.Put(tx, "a", &outbox.Recorded{SubscriptionID: "one"}),
			outbox.RecordedRows.Put(tx, "b", &outbox.Recorded{SubscriptionID: "two", Closed: "Archived"}))...)
	}))
	to := target(filepath.Join(t.TempDir(), "restored"))
	var content *backup.Content
	to.Describe = func(m *backup.Manifest, dir string) (err error) {
		content, err = backup.Describe(t.Context(), m, dir)
		return err
	}
	_, err := to.Restore(t.Context(), bytes.NewReader(s.stream(t, true)))
	require.NoError(t, err)
	require.Equal(t, []string{
		"Cluster cluster-a was installing. In reality its installation may have ended since then.",
		"Hosted cluster hosted-a was in the state Updating. In reality that may have ended since then.",
		"1 hosts were being installed. In reality they may be nodes since then.",
	}, content.Newer)
	require.Len(t, content.Held, 1)
	require.Contains(t, content.Held[0], "1 subscriptions are compared with AMS first")
	var text strings.Builder
	require.NoError(t, content.Write(&text))
	for _, each := range append(content.Newer, content.Held...) {
		require.Contains(t, text.String(), each)
	}
}

// TestDescribe_damagedRow restores a backup of an appliance with a damaged row.
func TestDescribe_damagedRow(t *testing.T) {
	s := newSource(t)
	require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error {
		return store.NewBucket[item]("clusters", 1).Put(tx, "one", &item{"sealed with another key"})
	}))
	stream := s.stream(t, true)
	dir := filepath.Join(t.TempDir(), "restored")
	_, err := target(dir).Restore(t.Context(), bytes.NewReader(stream))
	require.NoError(t, err)
	path := filepath.Join(dir, store.FileName)
	file, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, file.Update(func(tx *bolt.Tx) error {
		value := bytes.Clone(tx.Bucket([]byte("data")).Get([]byte("/clusters/one")))
		value[len(value)-1] ^= 1
		return tx.Bucket([]byte("data")).Put([]byte("/clusters/one"), value)
	}))
	require.NoError(t, file.Close())
	content, err := backup.Describe(t.Context(), &backup.Manifest{}, dir)
	require.NoError(t, err)
	require.Equal(t, []string{"/clusters/one"}, content.Damaged)
	var text strings.Builder
	require.NoError(t, content.Write(&text))
	require.Contains(t, text.String(), "/clusters/one")
}

func TestRepository_pruneIgnoresTimesOfAWrongClock(t *testing.T) {
	s := newSource(t)
	repository := &backup.Repository{Dir: filepath.Join(t.TempDir(), "backups")}
	receive := func(at time.Time) *backup.Received {
		s.Now = func() time.Time { return at }
		received, err := repository.Receive(bytes.NewReader(s.stream(t, true)))
		require.NoError(t, err)
		return received
	}
	future := receive(now.AddDate(10, 0, 0))
	first := receive(now)
	second := receive(now.Add(time.Hour))
	removed, err := repository.Prune(1, second.Time)
	require.NoError(t, err)
	require.Equal(t, 1, removed)
	names, err := repository.Names()
	require.NoError(t, err)
	require.Equal(t, []string{second.Name, future.Name}, names)
	require.NotContains(t, names, first.Name)
	for _, name := range names {
		requireRestorable(t, repository, name, s.content)
	}
}

// TestRepository_oneWriter writes two backups into one directory at the same time.
// TestRepository_lastIgnoresTimesOfAWrongClock chooses the backup to restore, among them one of a
// clock that was ahead.
func TestRepository_lastIgnoresTimesOfAWrongClock(t *testing.T) {
	names := []string{"20260101T000000.000Z", "20260102T000000.000Z", "20360101T000000.000Z"}
	repository := &backup.Repository{Dir: t.TempDir()}
	last, _, err := repository.Last(time.Now())
	require.NoError(t, err)
	require.Empty(t, last)
	for _, name := range names {
		require.NoError(t, repository.Add(name, []byte("{}"), nil))
	}
	for name, c := range map[string]struct {
		now   time.Time
		last  string
		later []string
	}{
		"right clock":  {time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), names[1], names[2:]},
		"same moment":  {time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), names[1], names[2:]},
		"reset clock":  {time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), names[2], nil},
		"years later":  {time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC), names[2], nil},
		"clock behind": {time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), names[0], names[1:]},
	} {
		last, later, err := repository.Last(c.now)
		require.NoError(t, err)
		require.Equal(t, c.last, last, name)
		require.ElementsMatch(t, c.later, later, name)
	}
}

func TestRepository_oneWriter(t *testing.T) {
	s := newSource(t)
	repository := &backup.Repository{Dir: filepath.Join(t.TempDir(), "backups")}
	stream := s.stream(t, true)
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := repository.Receive(reader)
		ended <- err
	}()
	_, err := writer.Write(stream[:1000]) // returns when it was read, under the lock
	require.NoError(t, err)
	_, err = repository.Receive(bytes.NewReader(stream))
	require.ErrorIs(t, err, backup.ErrBusy)
	go func() {
		_, _ = writer.Write(stream[1000:]) // the end of the archive is not read
	}()
	require.NoError(t, <-ended)
	require.NoError(t, reader.Close())
	_, err = repository.Receive(bytes.NewReader(stream))
	require.NoError(t, err)
}

// A backup that fills the medium leaves no objects, so the next one has their space.
func TestRepository_fullMediumKeepsNoRest(t *testing.T) {
	s := newSource(t)
	repository := &backup.Repository{Dir: filepath.Join(t.TempDir(), "backups")}
	received, err := repository.Receive(bytes.NewReader(s.stream(t, true)))
	require.NoError(t, err)
	objects := func() (names []string) {
		all, err := filepath.Glob(filepath.Join(repository.Dir, "objects", "*", "*"))
		require.NoError(t, err)
		return all
	}
	before := objects()
	require.NoError(t, s.DB.Update(t.Context(), func(tx *store.Tx) error { return items.Put(tx, "zz", &item{"new"}) }))
	stream := s.stream(t, true)
	for failure, stay := range map[error]bool{syscall.ENOSPC: false, errors.New("the connection was lost"): true} {
		part := io.MultiReader(bytes.NewReader(stream[:len(stream)-2048]), iotest.ErrReader(failure))
		_, err = repository.Receive(part)
		require.ErrorIs(t, err, failure)
		require.Equal(t, stay, len(objects()) > len(before), "the objects after: %s", err)
	}
	requireRestorable(t, repository, received.Name, s.content)
}

// A backup to a link replaces the file that the link leads to. A device is refused.
func TestWriteFile_linkStays(t *testing.T) {
	s, dir := newSource(t), t.TempDir()
	file, link := filepath.Join(dir, "stick", "site.backup"), filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(file, link))
	write := func(to string) error {
		_, err := backup.WriteFile(to, bytes.NewReader(s.stream(t, true)))
		return err
	}
	require.EqualError(t, write(link), "the link "+link+" can't be followed (no such file or directory): "+
		"mount what it leads to, or name another file")
	require.NoError(t, os.Mkdir(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte("former"), 0o600))
	require.NoError(t, write(link))
	leads, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, file, leads)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Greater(t, info.Size(), int64(1000))

	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.EqualError(t, write(pipe), pipe+" is no regular file: name a file or a directory")
	info, err = os.Lstat(pipe)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeNamedPipe)
}
