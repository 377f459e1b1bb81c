package appliance_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/backup"
	"landfall/appliance/keyring"
	"landfall/appliance/replica"
	"landfall/web/console"
)

// smallDisksEnv tells the child process how disks are limited: by small file systems of its own, or
// by a file size limit.
const smallDisksEnv = "TEST_SMALL_DISKS"

// withSmallDisks runs the calling test again in a process that may mount file systems, and reports
// whether this is that process. If no user may mount, a file size limit simulates a full disk.
func withSmallDisks(t *testing.T) bool {
	t.Helper()
	if os.Getenv(smallDisksEnv) != "" {
		return true
	}
	child := func(how string, attributes *syscall.SysProcAttr) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), smallDisksEnv+"="+how), attributes
		return cmd.CombinedOutput()
	}
	namespaces := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		ids := []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		groups := []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
		namespaces = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER, UidMappings: ids,
			GidMappings: groups}
	}
	out, err := child("mounts", namespaces)
	if errors.Is(err, os.ErrPermission) || strings.Contains(string(out), errNoMount) {
		out, err = child("limit", nil)
	}
	t.Logf("%s", out)
	require.NoError(t, err)
	return false
}

const errNoMount = "this process may not mount"

// disk is a directory with limited space.
type disk struct {
	dir    string
	filler string
	limit  *syscall.Rlimit // limit before the test; nil on a file system of its own
}

// smallDisk mounts a file system of the given size on dir.
func smallDisk(t *testing.T, dir string, size string) *disk {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o700))
	if os.Getenv(smallDisksEnv) == "limit" {
		signal.Ignore(syscall.SIGXFSZ)
		limit := new(syscall.Rlimit)
		require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, limit))
		return &disk{dir: dir, limit: limit}
	}
	err := errors.Join(syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=0700,size="+size))
	if errors.Is(err, syscall.EPERM) {
		t.Fatal(errNoMount)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return &disk{dir: dir, filler: filepath.Join(dir, "filler")}
}

// fill uses all remaining space. With a file size limit, no file may become larger than size.
func (d *disk) fill(t *testing.T, size uint64) {
	t.Helper()
	if d.limit != nil {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: d.limit.Max}))
		return
	}
	file, err := os.Create(d.filler)
	require.NoError(t, err)
	_, err = io.CopyBuffer(file, zeros{}, make([]byte, 4<<20))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, file.Close())
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func (d *disk) free(t *testing.T) {
	t.Helper()
	if d.limit != nil {
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, d.limit))
		return
	}
	require.NoError(t, os.Remove(d.filler))
}

// files returns the paths of the files below a directory.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// TestFullDisk_backup backs up an appliance to a medium that is full, or read-only after an error
// of the medium. The earlier backups stay, and the backup succeeds when the medium is usable.
func TestFullDisk_backup(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	s := newSite(t)
	address, stop := s.start(t)
	defer stop()
	medium := filepath.Join(t.TempDir(), "medium")
	d := smallDisk(t, medium, "32m")
	stream := func() io.Reader {
		create(t, address+apiPath+"/clusters", s.newCluster("one-more"))
		saved := call(t, http.MethodGet, address+console.BackupRoute+"?key=true", nil)
		require.Equal(t, http.StatusOK, saved.status)
		return bytes.NewReader(saved.body)
	}
	path := filepath.Join(medium, "site.backup")
	repository := &backup.Repository{Dir: filepath.Join(medium, "site")}
	write := func() error {
		_, err := backup.WriteFile(path, stream())
		return err
	}
	receive := func() error {
		_, err := repository.Receive(stream())
		return err
	}
	require.NoError(t, errors.Join(write(), receive()))
	requireFails := func(texts ...string) {
		t.Helper()
		before := contentsOf(t, medium)
		for to, attempt := range map[string]func() error{path: write, repository.Dir: receive} {
			err := attempt()
			for _, text := range append(texts, to, "what was written before is unchanged") {
				require.ErrorContains(t, err, text)
			}
			require.NotErrorAs(t, err, new(*backup.IncompleteError))
		}
		require.Equal(t, before, contentsOf(t, medium))
	}
	d.fill(t, 4<<10)
	requireFails("no space is left to write the backup")
	d.free(t)
	if d.limit == nil {
		require.NoError(t, syscall.Mount("", medium, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		requireFails("the file system is read-only")
		require.NoError(t, syscall.Mount("", medium, "", syscall.MS_REMOUNT, ""))
	}
	require.NoError(t, errors.Join(write(), receive()))
	names, err := repository.Names()
	require.NoError(t, err)
	require.Len(t, names, 2)
	for _, name := range names {
		target := &backup.Target{Dir: filepath.Join(t.TempDir(), "restored"), Now: time.Now}
		_, err := repository.Restore(t.Context(), name, target)
		require.NoError(t, err)
	}
}

// TestFullDisk_replica fills the disk of the replica. The appliance goes on, and the replica gets
// the changes when there is space again.
func TestFullDisk_replica(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	s := newSite(t)
	d := smallDisk(t, filepath.Join(t.TempDir(), "medium"), "16m")
	s.config.Replica.To = d.dir
	address, stop := s.start(t)
	state := func() *replica.State {
		var status console.Status
		call(t, http.MethodGet, address+console.BasePath+"/status", nil).read(t, http.StatusOK, &status)
		return status.Replica
	}
	eventuallySlow(t, "the first snapshot", func() bool { return state().Ready })
	if d.limit != nil {
		stop()
		return // the limit would hold for the data directory, too
	}
	d.fill(t, 4<<10)
	clusters := address + apiPath + "/clusters"
	create(t, clusters, s.newCluster("during"))
	eventuallySlow(t, "the failure of the replica", func() bool { return state().Failure != "" })
	require.Contains(t, state().Failure, "no space is left to write the replica to "+d.dir)
	d.free(t)
	eventuallySlow(t, "the end of the failure", func() bool { return state().Ready })
	stop()
	reader := replica.Reader{Directory: replica.Directory{Path: d.dir}}
	found, err := reader.Verify(t.Context())
	require.NoError(t, err)
	require.Empty(t, found.Damage)
	target := backup.Target{Dir: filepath.Join(t.TempDir(), "restored"), Now: time.Now}
	_, err = reader.Restore(t.Context(), time.Time{}, target)
	require.NoError(t, err)
	key, err := os.ReadFile(filepath.Join(s.config.DataDir, keyring.DefaultKeyFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(target.Dir, keyring.DefaultKeyFile), key, 0o600))
	s.config.DataDir, s.config.Replica.To = target.Dir, ""
	address, stop = s.start(t)
	defer stop()
	var shown []struct{ Name string }
	call(t, http.MethodGet, address+apiPath+"/clusters", nil).read(t, http.StatusOK, &shown)
	require.Equal(t, "during", shown[0].Name)
}

// contentsOf returns the contents of the files below a directory, except the filler of a disk.
func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, path := range files(t, dir) {
		if filepath.Base(path) == "filler" {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		found[path] = string(text)
	}
	return found
}

func TestFullDisk_databaseKeepsNoPartialChange(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	s := newSite(t)
	d := smallDisk(t, s.config.DataDir, "32m")
	status, want := http.StatusServiceUnavailable, []string{"no space is left to write " + s.config.DataDir,
		"the change was not saved", "free space on its file system, then try again"}
	if d.limit == nil {
		smallDisk(t, filepath.Join(s.config.DataDir, "audit"), "8m") // the audit trail has a test of its own
	} else {
		status, want = http.StatusInsufficientStorage, []string{"no space is left to write the audit trail"}
	}
	address, _ := s.start(t)
	clusters := address + apiPath + "/clusters"
	first := create(t, clusters, s.newCluster("first"))

	d.fill(t, 4096)
	var got answer
	accepted := 1
	for range 2000 { // free pages inside the file hold some more
		if got = call(t, http.MethodPost, clusters, s.newCluster("next")); got.status != http.StatusCreated {
			break
		}
		accepted++
	}
	requireRefusal(t, got, status, want...)
	require.Equal(t, first, clusterAt(t, address, first).ID.String(), "reads still work")

	d.free(t)
	create(t, clusters, s.newCluster("last"))
	var list []models.Cluster
	call(t, http.MethodGet, clusters, nil).read(t, http.StatusOK, &list)
	require.Len(t, list, accepted+1)
}

func TestFullDisk_uploads(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	s := newSite(t)
	blobs := filepath.Join(s.config.DataDir, "blobs")
	d := smallDisk(t, blobs, "4m")
	address, _ := s.start(t)
	id := create(t, address+apiPath+"/clusters", s.newCluster("line"))
	manifest := object{"folder": "openshift", "file_name": "big.yaml", "content": ""}
	big := strings.Repeat("IyBhIG1hbmlmZXN0IG9mIG1hbnkgbGluZXMK", 20_000)
	d.fill(t, 64<<10)
	requireRefusal(t, call(t, http.MethodPost, address+apiPath+"/clusters/"+id+"/manifests",
		manifest.with(object{"content": big})), http.StatusServiceUnavailable,
		"no space is left to write "+blobs, "free space on its file system, then try again")
	requireNothing(t, address+apiPath+"/clusters/"+id+"/manifests")
	d.free(t)
	require.Empty(t, files(t, blobs))
	require.Equal(t, http.StatusCreated, call(t, http.MethodPost, address+apiPath+"/clusters/"+id+"/manifests",
		manifest.with(object{"content": big})).status)
}

func TestFullDisk_installers(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	s := newSite(t)
	installers := filepath.Join(s.config.DataDir, "installers")
	d := smallDisk(t, installers, "64m")
	address, _ := s.start(t)
	id := s.readyCluster(t, address, pullSecret, pullSecret)
	if d.limit != nil {
		return // a limit would also stop the database, which has its own test
	}
	d.fill(t, 0)
	pressInstall(t, address, id)
	requireUnprepared(t, address, id, "extract openshift-install of release "+s.release.Version+": ",
		"no space is left to write "+installers, "free space on its file system")
	d.free(t)
	require.Empty(t, files(t, installers))

	pressInstall(t, address, id)
	requireStatus(t, address, id, models.ClusterStatusInstalled)
}

func TestFullDisk_generatedFiles(t *testing.T) {
	if !withSmallDisks(t) {
		return
	}
	s := newSite(t)
	installers := filepath.Join(s.config.DataDir, "installers")
	d := smallDisk(t, installers, "64m")
	address, _ := s.start(t)
	first := s.readyCluster(t, address, pullSecret, pullSecret)
	pressInstall(t, address, first) // openshift-install is extracted now
	requireStatus(t, address, first, models.ClusterStatusInstalled)
	if d.limit != nil {
		return // a limit would also stop the database, which has its own test
	}
	id := s.readyCluster(t, address, pullSecret, pullSecret)
	d.fill(t, 0)
	pressInstall(t, address, id)
	requireUnprepared(t, address, id, "no space is left to write "+installers, "free space on its file system")
	d.free(t)
	require.Empty(t, files(t, filepath.Join(installers, "work")))

	pressInstall(t, address, id)
	requireStatus(t, address, id, models.ClusterStatusInstalled)
}
