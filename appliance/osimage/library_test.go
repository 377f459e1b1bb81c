package osimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/isogen/skeleton"
)

// iso is a live ISO whose volume ID contains the OpenShift version 4.18.
var iso = skeleton.ISO{VolumeID: "rhcos-418.94.202511191518-0"}

func isoContent(t *testing.T, iso skeleton.ISO) []byte {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, skeleton.Write(&file, iso))
	return file.Bytes()
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func isoFile(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "live.iso")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// site contains the options of a library that a test opens several times.
type site struct {
	options Options
	clock   *clockwork.FakeClock
	users   []User
}

func newSite(t *testing.T, images ...Configured) *site {
	t.Helper()
	s := &site{clock: clockwork.NewFakeClockAt(time.Unix(1_780_000_000, 0))}
	s.options = Options{
		Dir: filepath.Join(t.TempDir(), "os-images"), Images: images, Clock: s.clock,
		Logger: slog.New(slog.DiscardHandler),
		Users:  func() ([]User, error) { return s.users, nil },
	}
	return s
}

// open opens the library as at the start of the appliance. The returned function closes it.
func (s *site) open(t *testing.T) (*Library, func()) {
	t.Helper()
	l, err := New(s.options)
	require.NoError(t, err)
	closed := false
	stop := func() {
		if !closed {
			closed = true
			require.NoError(t, l.Close())
		}
	}
	t.Cleanup(stop)
	return l, stop
}

// run opens the library and runs it. The returned function stops and closes it.
func (s *site) run(t *testing.T) (*Library, func()) {
	t.Helper()
	l, stop := s.open(t)
	ctx, cancel := contextWithCancel(t)
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	end := func() {
		if cancel != nil {
			cancel()
			cancel = nil
			require.NoError(t, <-ended)
			stop()
		}
	}
	t.Cleanup(end)
	return l, end
}

func onlyImage(t *testing.T, l *Library) Image {
	t.Helper()
	list, err := l.List()
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0]
}

// waitForState waits until an image has the state, and returns the image.
func waitForState(t *testing.T, l *Library, id string, state State) Image {
	t.Helper()
	var image Image
	require.Eventually(t, func() bool {
		var err error
		image, err = l.Image(id)
		return err == nil && image.State == state
	}, time.Minute, time.Millisecond, "the image did not become %s", state)
	return image
}

// files lists the directory of the library.
func (s *site) files(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(s.options.Dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func requireSentence(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "\n")
}

func TestLibrary_configuredFileIsReady(t *testing.T) {
	path := isoFile(t, isoContent(t, iso))
	l, _ := newSite(t, Configured{Path: path}).open(t)
	image := onlyImage(t, l)
	require.Equal(t, StateReady, image.State)
	require.Equal(t, "4.18", image.OpenshiftVersion)
	require.Equal(t, "x86_64", image.CPUArchitecture)
	require.Equal(t, iso.VolumeID, image.VolumeID)
	require.Equal(t, "418.94.202511191518-0", image.CoreOSVersion)
	require.Equal(t, path, image.Path)
	require.True(t, image.Configured)
	require.False(t, image.Removable)
	base, err := l.Find("4.18.30", "x86_64")
	require.NoError(t, err)
	require.Equal(t, path, base.Path())
}

func TestLibrary_versionIsReadFromContent(t *testing.T) {
	for name, c := range map[string]struct {
		iso           skeleton.ISO
		version, arch string // stated in the configuration
		want          string
		message       string
	}{
		"4.18 in the volume ID": {iso: iso, want: "4.18"},
		"4.9 in the volume ID":  {iso: skeleton.ISO{VolumeID: "rhcos-49.84.202207192205-0"}, want: "4.9"},
		"4.10 in the volume ID": {iso: skeleton.ISO{VolumeID: "rhcos-410.84.202210040010-0"}, want: "4.10"},
		"OKD in the volume ID":  {iso: skeleton.ISO{VolumeID: "scos-417.9.202410160205-0"}, want: "4.17"},
		"stated 4.18":           {iso: iso, version: "4.18.30", arch: "x86_64", want: "4.18.30"},
		"stated 4.20":           {version: "4.20", want: "4.20"},
		"stated 5.0":            {version: "5.0", want: "5.0"},
		"arm64": {iso: skeleton.ISO{VolumeID: iso.VolumeID, Architecture: "aarch64"},
			arch: "arm64", want: "4.18"},
		"another version": {iso: iso, version: "4.17",
			message: "the image rhcos-418.94.202511191518-0 is for OpenShift 4.18, not for 4.17; use the version " +
				"4.18, " +
				"or send the right file"},
		"another architecture":      {iso: iso, arch: "aarch64", message: "is for x86_64, not for aarch64"},
		"new image for old version": {version: "4.18", message: "is for OpenShift 4.19 or newer, not for 4.18"},
		"no version in the volume ID": {message: "does not contain its OpenShift version; state the version, as in " +
			"--openshift-version 4.20"},
		"foreign volume id": {iso: skeleton.ISO{VolumeID: "fedora-coreos-42.20250609.3.0"},
			message: "state the version, as in --openshift-version 4.20"},
	} {
		t.Run(name, func(t *testing.T) {
			path := isoFile(t, isoContent(t, c.iso))
			l, _ := newSite(t, Configured{Path: path, OpenshiftVersion: c.version, CPUArchitecture: c.arch}).open(t)
			image := onlyImage(t, l)
			if c.message != "" {
				require.Equal(t, StateBad, image.State)
				requireSentence(t, image.Message, c.message, path)
				return
			}
			require.Equal(t, StateReady, image.State, image.Message)
			require.Equal(t, c.want, image.OpenshiftVersion)
		})
	}
}

func TestLibrary_badImageHarmsNoOther(t *testing.T) {
	good, bad := isoFile(t, isoContent(t, iso)), isoFile(t, []byte(strings.Repeat("no ISO ", 10_000)))
	l, _ := newSite(t, Configured{Path: bad, OpenshiftVersion: "4.19", CPUArchitecture: "x86_64"},
		Configured{Path: good}).open(t)
	_, err := l.Find("4.19.1", "x86_64")
	require.ErrorContains(t, err, bad)
	_, err = l.Find("4.18.1", "x86_64")
	require.NoError(t, err)
	_, err = l.Find("4.12.0", "x86_64")
	require.ErrorContains(t, err,
		"no OS image matches OpenShift 4.12.0 on x86_64; the appliance has images for 4.19 (x86_64), 4.18 (x86_64); "+
			"import")
	unavailable := new(UnavailableError)
	require.ErrorAs(t, err, &unavailable)
}

func TestLibrary_wrongDigestIsNotServed(t *testing.T) {
	right := isoContent(t, iso)
	path := isoFile(t, isoContent(t, skeleton.ISO{VolumeID: iso.VolumeID, RootFSSize: 1 << 20}))
	s := newSite(t, Configured{Path: path, SHA256: sumOf(right)})
	l, _ := s.run(t)
	image := waitForState(t, l, onlyImage(t, l).ID, StateBad)
	requireSentence(t, image.Message, path, "but sha256 "+sumOf(right),
		"correct sha256 under os_images, or replace the file")
	for range 2 {
		_, err := l.Find("4.18.30", "x86_64")
		require.ErrorContains(t, err, "or replace the file")
	}
	require.NoError(t, os.WriteFile(path+".new", right, 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	_, err := l.Find("4.18.30", "x86_64")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return onlyImage(t, l).SHA256 == sumOf(right) }, time.Minute,
		time.Millisecond)
	require.Equal(t, StateReady, onlyImage(t, l).State)
}

func TestLibrary_digestIsKeptAcrossRestarts(t *testing.T) {
	content := isoContent(t, iso)
	path := isoFile(t, content)
	s := newSite(t, Configured{Path: path, SHA256: sumOf(content)})
	l, stop := s.run(t)
	require.Eventually(t, func() bool { return onlyImage(t, l).SHA256 != "" }, time.Minute, time.Millisecond)
	verified := onlyImage(t, l).VerifiedAt
	stop()

	s.clock.Advance(time.Hour)
	l, stop = s.run(t)
	require.Equal(t, sumOf(content), onlyImage(t, l).SHA256)
	require.Equal(t, StateReady, onlyImage(t, l).State)
	require.Equal(t, verified, onlyImage(t, l).VerifiedAt)
	stop()

	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(path, later, later))
	l, _ = s.run(t)
	require.Eventually(t, func() bool { return onlyImage(t, l).VerifiedAt.After(verified) }, time.Minute,
		time.Millisecond)
}

func TestLibrary_verifyFindsDamage(t *testing.T) {
	s := newSite(t)
	l, _ := s.run(t)
	content := isoContent(t, iso)
	id := upload(t, l, content).ID
	image, err := l.Verify(id)
	require.NoError(t, err)
	require.Contains(t, []State{StateVerifying, StateReady}, image.State)
	require.Equal(t, sumOf(content), waitForState(t, l, id, StateReady).SHA256)

	info, err := os.Stat(image.Path)
	require.NoError(t, err)
	content[len(content)-5000] ^= 1
	require.NoError(t, os.WriteFile(image.Path, content, 0o600))
	// like a failing disk, which does not change the modification time
	require.NoError(t, os.Chtimes(image.Path, info.ModTime(), info.ModTime()))
	_, err = l.Verify(id)
	require.NoError(t, err)
	requireSentence(t, waitForState(t, l, id, StateBad).Message,
		"the disk has damaged the file; import the image again, then remove this one")
	_, err = l.Find("4.18", "x86_64")
	require.ErrorContains(t, err, "damaged")

	_, err = l.Verify("none")
	require.ErrorContains(t, err, "the OS image none does not exist")
}

func TestLibrary_verifyFailsWithoutReading(t *testing.T) {
	path := isoFile(t, isoContent(t, iso))
	s := newSite(t, Configured{Path: path})
	l, _ := s.open(t)
	e := l.entries[0]
	_, err := l.Verify(e.id)
	require.NoError(t, err)
	l.hash = func(context.Context, string, func(int64)) (string, os.FileInfo, error) {
		return "", nil, &os.PathError{Op: "read", Path: path, Err: syscall.EIO}
	}
	l.verifyFile(t.Context(), e)
	image := onlyImage(t, l)
	require.Equal(t, StateBad, image.State)
	requireSentence(t, image.Message, "input/output error", "replace the file")
}

func TestLibrary_remove(t *testing.T) {
	path := isoFile(t, isoContent(t, skeleton.ISO{VolumeID: "rhcos-417.94.202507291008-0"}))
	s := newSite(t, Configured{Path: path})
	s.users = []User{{Name: "east", OpenshiftVersion: "4.18.30", CPUArchitecture: "x86_64"}}
	l, _ := s.open(t)
	configured := onlyImage(t, l)
	err := l.Remove(configured.ID)
	require.ErrorContains(t, err,
		"; remove it from os_images and restart the appliance")

	id := upload(t, l, isoContent(t, iso)).ID
	image, err := l.Image(id)
	require.NoError(t, err)
	require.Equal(t, 1, image.InUseBy)
	require.Equal(t, []string{"east"}, image.Users)
	require.ErrorContains(t, l.Remove(id), "is in use by the infra-envs east; delete them")

	s.users = nil
	require.NoError(t, l.Remove(id))
	require.ErrorContains(t, l.Remove(id), "the OS image "+id)
	require.Empty(t, s.files(t))
	require.FileExists(t, path)
}

func TestLibrary_precedence(t *testing.T) {
	s := newSite(t)
	l, stop := s.open(t)
	older := upload(t, l, isoContent(t, iso)).ID
	s.clock.Advance(time.Minute)
	newer := upload(t, l, isoContent(t, skeleton.ISO{VolumeID: "rhcos-418.94.202512010000-0"})).ID
	for range 2 {
		base, err := l.Find("4.18.30", "x86_64")
		require.NoError(t, err)
		require.Equal(t, l.path(newer, ".iso"), base.Path())
		stop()
		l, stop = s.open(t) // after a restart
	}
	s.users = []User{{Name: "east", OpenshiftVersion: "4.18.30", CPUArchitecture: "x86_64"}}
	require.NoError(t, l.Remove(older), "the image is not in use")
	stop()

	path := isoFile(t, isoContent(t, iso))
	s.options.Images = []Configured{{Path: path}}
	l, _ = s.open(t)
	base, err := l.Find("4.18.30", "x86_64")
	require.NoError(t, err)
	require.Equal(t, path, base.Path())
}

// An image has a gigabyte, so a start does not compute the digest of an unchanged file again.
func TestLibrary_openReadsNoWholeImage(t *testing.T) {
	s := newSite(t)
	l, stop := s.open(t)
	image := upload(t, l, isoContent(t, skeleton.ISO{VolumeID: "rhcos-418.94.1", RootFSSize: 1 << 20}))
	require.Equal(t, StateReady, image.State)
	path := l.path(image.ID, ".iso")
	stop()
	info, err := os.Stat(path)
	require.NoError(t, err)
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte("other"), info.Size()/2)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))

	l, _ = s.open(t)
	images, err := l.List()
	require.NoError(t, err)
	require.Equal(t, []Image{image}, images)
}

func TestLibrary_directoryCanNotBeCreated(t *testing.T) {
	s := newSite(t)
	s.options.Dir = filepath.Join(isoFile(t, nil), "os-images")
	_, err := New(s.options)
	require.ErrorContains(t, err, "create the directory of OS images")
}

func TestLibrary_remainsOfKilledProcess(t *testing.T) {
	s := newSite(t)
	require.NoError(t, os.MkdirAll(s.options.Dir, 0o700))
	for name, content := range map[string]string{"aa.part": "half", "bb.json.new": "{", "cc.json": "{no JSON",
		"dd.iso": "somebody's"} {
		require.NoError(t, os.WriteFile(filepath.Join(s.options.Dir, name), []byte(content), 0o600))
	}
	l, _ := s.open(t)
	list, err := l.List()
	require.NoError(t, err)
	require.Empty(t, list)
	require.Equal(t, []string{"cc.json", "dd.iso"}, s.files(t))
}

func TestNew_samePathTwoVersions(t *testing.T) {
	path := isoFile(t, isoContent(t, newISO))
	s := newSite(t, Configured{Path: path, OpenshiftVersion: "4.20"}, Configured{Path: path, OpenshiftVersion: "4.21"},
		Configured{Path: path, OpenshiftVersion: "4.21.3"})
	var log bytes.Buffer
	s.options.Logger = slog.New(slog.NewTextHandler(&log, nil))
	l, stop := s.open(t)
	require.Contains(t, log.String(), "The second entry is ignored.")
	require.Contains(t, log.String(), "openshift_version=4.21.3")
	ids := l.IDs()
	require.Len(t, ids, 2)
	for _, version := range []string{"4.20.8", "4.21.3"} {
		_, err := l.Find(version, "x86_64")
		require.NoError(t, err)
	}
	stop()
	s.options.Images = s.options.Images[:1]
	l, _ = s.open(t)
	require.Contains(t, ids, onlyImage(t, l).ID)
}

// damageFile changes a file like a failing disk, which does not change the modification time.
func damageFile(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	content[len(content)-5000] ^= 1
	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

func TestVerify_damagePersists(t *testing.T) {
	s := newSite(t)
	l, stop := s.run(t)
	content := isoContent(t, iso)
	image := upload(t, l, content)
	damageFile(t, image.Path)
	_, err := l.Verify(image.ID)
	require.NoError(t, err)
	waitForState(t, l, image.ID, StateBad)
	stop()

	l, _ = s.run(t)
	require.Equal(t, StateBad, onlyImage(t, l).State)
	_, err = l.Find("4.18", "x86_64")
	require.ErrorContains(t, err, "the disk has damaged the file; import the image again, then remove this one")
	again, err := l.Verify(image.ID)
	require.NoError(t, err)
	require.Equal(t, StateBad, again.State, "the damaged file is served during its verification")

	replacement := upload(t, l, content)
	base, err := l.Find("4.18", "x86_64")
	require.NoError(t, err)
	require.Equal(t, replacement.Path, base.Path())
	s.users = []User{{Name: "east", OpenshiftVersion: "4.18", CPUArchitecture: "x86_64"}}
	require.NoError(t, l.Remove(image.ID))
}

func TestVerify_downloadsDamagedImageAgain(t *testing.T) {
	content := isoContent(t, iso)
	from := newServer(t, content)
	s := newSite(t, Configured{URL: from.URL + "/live.iso"})
	l, stop := s.run(t)
	image := waitForState(t, l, onlyImage(t, l).ID, StateReady)
	damageFile(t, image.Path)
	_, err := l.Verify(image.ID)
	require.NoError(t, err)
	waitForState(t, l, image.ID, StateBad)
	stop()

	l, _ = s.run(t)
	requireSentence(t, onlyImage(t, l).Message, "run landfall iso verify "+image.ID+" to download the image again")
	_, err = l.Verify(image.ID)
	require.NoError(t, err)
	require.Equal(t, sumOf(content), waitForState(t, l, image.ID, StateReady).SHA256)
	require.EqualValues(t, 2, from.requests.Load())
}

// The disk may fail for a short time, so a whole file must not be removed at once.
func TestVerify_unreadableDownloadIsReadTwice(t *testing.T) {
	from := newServer(t, isoContent(t, iso))
	s := newSite(t, Configured{URL: from.URL + "/live.iso"})
	l, stop := s.run(t)
	id := waitForState(t, l, onlyImage(t, l).ID, StateReady).ID
	stop()
	l, stop = s.open(t)
	defer stop()
	hash := l.hash
	for _, advice := range []string{"to read the file again", "to download the image again"} {
		_, err := l.Verify(id)
		require.NoError(t, err)
		l.hash = func(context.Context, string, func(int64)) (string, os.FileInfo, error) { return "", nil, syscall.EIO }
		l.verifyFile(t.Context(), l.entries[0])
		l.hash = hash
		requireSentence(t, onlyImage(t, l).Message, "input/output error", "run landfall iso verify "+id+" "+advice)
		require.FileExists(t, l.file(l.entries[0]))
	}
	_, err := l.Verify(id)
	require.NoError(t, err)
	require.NoFileExists(t, l.file(l.entries[0]))
	require.Equal(t, StateWaiting, onlyImage(t, l).State)
}

func TestVerify_unreadableFileIsReadAgain(t *testing.T) {
	s := newSite(t, Configured{Path: isoFile(t, isoContent(t, iso))})
	l, stop := s.open(t)
	e := l.entries[0]
	_, err := l.Verify(e.id)
	require.NoError(t, err)
	l.hash = func(context.Context, string, func(int64)) (string, os.FileInfo, error) { return "", nil, syscall.EIO }
	l.verifyFile(t.Context(), e)
	stop()

	l, _ = s.run(t)
	requireSentence(t, onlyImage(t, l).Message, "input/output error", "replace the file")
	_, err = l.Verify(e.id)
	require.NoError(t, err)
	require.NotEmpty(t, waitForState(t, l, e.id, StateReady).SHA256)
}
