package osimage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"landfall/isogen/skeleton"
)

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// upload uploads a complete image and returns its description.
func upload(t *testing.T, l *Library, content []byte) Image {
	t.Helper()
	up, err := l.StartUpload(UploadRequest{Name: "live.iso", SizeBytes: int64(len(content))})
	require.NoError(t, err)
	done, err := l.Append(t.Context(), up.ID, 0, 0, bytes.NewReader(content))
	require.NoError(t, err)
	require.NotNil(t, done.Image)
	return *done.Image
}

// cutOff returns a reader that returns the content and then an error, like a broken connection.
func cutOff(content []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(content), iotestErr{})
}

type iotestErr struct{}

var errCut = errors.New("the connection was cut")

func (iotestErr) Read([]byte) (int, error) { return 0, errCut }

func TestUpload(t *testing.T) {
	s := newSite(t)
	l, stop := s.open(t)
	content := isoContent(t, iso)
	image := upload(t, l, content)
	require.Equal(t, StateReady, image.State)
	require.Equal(t, SourceImport, image.Source)
	require.Equal(t, "live.iso", image.Name)
	require.Equal(t, sumOf(content), image.SHA256)
	require.True(t, image.Removable)
	stop()

	l, _ = s.open(t)
	require.Equal(t, image, onlyImage(t, l))
	_, err := l.Find("4.18.2", "x86_64")
	require.NoError(t, err)
	require.Equal(t, []string{image.ID + ".iso", image.ID + ".iso.miniso", image.ID + ".json"}, s.files(t))
	require.True(t, image.Minimal, "the library did not write the missing table for minimal images")
}

func TestUpload_resumesAfterRestart(t *testing.T) {
	s := newSite(t)
	l, stop := s.open(t)
	content := isoContent(t, iso)
	up, err := l.StartUpload(UploadRequest{Name: "live.iso", SizeBytes: int64(len(content)), SHA256: sumOf(content)})
	require.NoError(t, err)
	_, err = l.Append(t.Context(), up.ID, 0, 0, cutOff(content[:1_000_000]))
	require.ErrorIs(t, err, errCut)
	image := onlyImage(t, l)
	require.Equal(t, StateWaiting, image.State)
	require.EqualValues(t, 1_000_000, image.DoneBytes)
	requireSentence(t, image.Message, "import the same file again to continue, or remove the upload")

	standing, err := l.Offset(up.ID)
	require.NoError(t, err)
	require.EqualValues(t, 1_000_000, standing.Offset)
	_, err = l.Append(t.Context(), up.ID, 1_000_000, 0, cutOff(content[1_000_000:2_000_000]))
	require.ErrorIs(t, err, errCut)
	stop()

	l, _ = s.open(t)
	standing, err = l.Offset(up.ID)
	require.NoError(t, err)
	require.EqualValues(t, 2_000_000, standing.Offset)
	require.EqualValues(t, len(content), standing.Size)
	done, err := l.Append(t.Context(), up.ID, standing.Offset, 0, bytes.NewReader(content[standing.Offset:]))
	require.NoError(t, err)
	require.Equal(t, sumOf(content), done.Image.SHA256)
	got, err := os.ReadFile(done.Image.Path)
	require.NoError(t, err)
	require.Equal(t, content, got)
}

func TestUpload_resumesAfterPowerLoss(t *testing.T) {
	s := newSite(t)
	l, stop := s.open(t)
	content := isoContent(t, iso)
	up, err := l.StartUpload(UploadRequest{SizeBytes: int64(len(content))})
	require.NoError(t, err)
	_, err = l.Append(t.Context(), up.ID, 0, 0, cutOff(content[:1_000_000]))
	require.ErrorIs(t, err, errCut)
	stop()
	// Append bytes that, as after a power failure, are in the file but not in the record.
	part, err := os.OpenFile(l.path(up.ID, partEnding), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = part.Write(make([]byte, 300_000))
	require.NoError(t, err)
	require.NoError(t, part.Close())

	l, _ = s.open(t)
	done, err := l.Append(t.Context(), up.ID, 1_000_000, 0, bytes.NewReader(content[1_000_000:]))
	require.NoError(t, err)
	require.Equal(t, sumOf(content), done.Image.SHA256)
}

func TestUpload_adoptedAfterPowerLoss(t *testing.T) {
	s := newSite(t)
	l, stop := s.open(t)
	image := upload(t, l, isoContent(t, iso))
	stop()
	require.NoError(t, os.Rename(l.path(image.ID, isoEnding), l.path(image.ID, partEnding)))
	l, _ = s.open(t)
	require.Equal(t, StateReady, onlyImage(t, l).State)
}

func TestUpload_unknownSize(t *testing.T) {
	l, _ := newSite(t).open(t)
	content := isoContent(t, iso)
	up, err := l.StartUpload(UploadRequest{Name: "-"})
	require.NoError(t, err)
	half := int64(len(content) / 2)
	standing, err := l.Append(t.Context(), up.ID, 0, 0, bytes.NewReader(content[:half]))
	require.NoError(t, err)
	require.Equal(t, half, standing.Offset)
	require.Nil(t, standing.Image)
	done, err := l.Append(t.Context(), up.ID, half, int64(len(content)), bytes.NewReader(content[half:]))
	require.NoError(t, err)
	require.Equal(t, StateReady, done.Image.State)
}

func TestUpload_notAnImage(t *testing.T) {
	good := isoContent(t, iso)
	for name, c := range map[string]struct {
		content []byte
		a       UploadRequest
		message string
	}{
		"no ISO": {content: bytes.Repeat([]byte("qcow2"), 20_000),
			message: "the base ISO wrong.iso cannot be used: "},
		"truncated": {content: good[:len(good)-100_000], message: "the copy is incomplete, download it again"},
		"no embed area": {content: isoContent(t, skeleton.ISO{VolumeID: iso.VolumeID,
			Replace: map[string][]byte{"coreos/igninfo.json": nil, "images/ignition.img": nil}}),
			message: "no Ignition embed area"},
		"wrong SHA-256": {content: good, a: UploadRequest{SHA256: sumOf([]byte("other"))},
			message: "wrong.iso has sha256 " + sumOf(good) + ", but sha256 " + sumOf([]byte("other"))},
		"another version": {content: good, a: UploadRequest{OpenshiftVersion: "4.20"},
			message: "is for OpenShift 4.18, not for 4.20"},
		"another architecture": {content: good, a: UploadRequest{CPUArchitecture: "s390x"},
			message: "is for x86_64, not for s390x"},
		"no version": {content: isoContent(t, skeleton.ISO{}), message: "--openshift-version"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			l, _ := s.open(t)
			c.a.Name, c.a.SizeBytes = "wrong.iso", int64(len(c.content))
			up, err := l.StartUpload(c.a)
			require.NoError(t, err)
			_, err = l.Append(t.Context(), up.ID, 0, 0, bytes.NewReader(c.content))
			wrong := new(ContentError)
			require.ErrorAs(t, err, &wrong)
			requireSentence(t, err.Error(), c.message)
			require.NotContains(t, err.Error(), s.options.Dir)
			require.Empty(t, s.files(t))
			list, err := l.List()
			require.NoError(t, err)
			require.Empty(t, list)
		})
	}
}

func TestUpload_duplicate(t *testing.T) {
	s := newSite(t)
	l, _ := s.open(t)
	content := isoContent(t, iso)
	first := upload(t, l, content)
	_, err := l.StartUpload(UploadRequest{SHA256: strings.ToUpper(first.SHA256)})
	require.ErrorContains(t, err, "the image exists already as "+first.ID+
		" (OpenShift 4.18, x86_64); no import is needed")

	up, err := l.StartUpload(UploadRequest{SizeBytes: int64(len(content))})
	require.NoError(t, err)
	_, err = l.Append(t.Context(), up.ID, 0, 0, bytes.NewReader(content))
	require.ErrorContains(t, err, "the image exists already as "+first.ID)
	require.Equal(t, []string{first.ID + ".iso", first.ID + ".iso.miniso", first.ID + ".json"}, s.files(t))
}

func TestUpload_invalidAnnouncement(t *testing.T) {
	s := newSite(t)
	s.options.MaxBytes = 1 << 20
	l, _ := s.open(t)
	for message, a := range map[string]UploadRequest{
		`openshift_version is "newest"; expected a version such as 4.20`: {OpenshiftVersion: "newest"},
		`cpu_architecture is "mips"; expected one of x86_64`:             {CPUArchitecture: "mips"},
		`sha256 is "abc"; expected 64 hexadecimal digits`:                {SHA256: "abc"},
		`size_bytes is -1`: {SizeBytes: -1},
		`the file has 1048577 bytes, but the limit for OS images is 1048576; raise limits.os_image_bytes`: {
			SizeBytes: 1<<20 + 1},
	} {
		_, err := l.StartUpload(a)
		require.ErrorContains(t, err, message)
	}
	require.Empty(t, s.files(t))
}

func TestUpload_noSpace(t *testing.T) {
	s := newSite(t)
	l, _ := s.open(t)
	free, err := freeSpace(s.options.Dir)
	require.NoError(t, err)
	_, err = l.StartUpload(UploadRequest{SizeBytes: free + 1<<40})
	full := new(SpaceError)
	require.ErrorAs(t, err, &full)
	requireSentence(t, err.Error(), "the image needs ", " MB more in "+s.options.Dir,
		"free space on the file system, then try again")
	require.Empty(t, s.files(t))
}

func TestUpload_wrongOffset(t *testing.T) {
	l, _ := newSite(t).open(t)
	up, err := l.StartUpload(UploadRequest{SizeBytes: 100})
	require.NoError(t, err)
	_, err = l.Append(t.Context(), up.ID, 7, 0, strings.NewReader("x"))
	wrong := new(OffsetError)
	require.ErrorAs(t, err, &wrong)
	require.EqualError(t, err, "the upload has 0 bytes, but the request begins at offset 7; continue at 0")
	_, err = l.Append(t.Context(), up.ID, 0, 0, bytes.NewReader(make([]byte, 101)))
	require.ErrorContains(t, err, "the request exceeds the 100 bytes")
	_, err = l.Append(t.Context(), up.ID, 0, 99, strings.NewReader("x"))
	require.ErrorContains(t, err, "started with a size of 100 bytes, but the request states 99")
	_, err = l.Append(t.Context(), "none", 0, 0, strings.NewReader("x"))
	require.ErrorContains(t, err, "the OS image none does not exist")
}

func TestUpload_laterRequestSupersedes(t *testing.T) {
	l, _ := newSite(t).open(t)
	content := isoContent(t, iso)
	up, err := l.StartUpload(UploadRequest{SizeBytes: int64(len(content))})
	require.NoError(t, err)
	hanging, feed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := l.Append(t.Context(), up.ID, 0, 0, hanging)
		ended <- err
	}()
	_, err = feed.Write(content[:4096])
	require.NoError(t, err)
	_, err = feed.Write(nil) // returns after the previous bytes are in the file
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		standing, err := l.Offset(up.ID)
		return err == nil && standing.Offset == 4096
	}, waitLimit, tick)
	done, err := l.Append(t.Context(), up.ID, 4096, 0, bytes.NewReader(content[4096:]))
	require.NoError(t, err)
	require.Equal(t, StateReady, done.Image.State)
	require.NoError(t, feed.Close())
	superseded := new(SupersededError)
	require.ErrorAs(t, <-ended, &superseded)
	require.Equal(t, StateReady, onlyImage(t, l).State)
}

func TestUpload_cancel(t *testing.T) {
	s := newSite(t)
	l, _ := s.open(t)
	for _, giveUp := range []func(string) error{l.CancelUpload, l.Remove} {
		up, err := l.StartUpload(UploadRequest{SizeBytes: 5 << 20})
		require.NoError(t, err)
		_, err = l.Append(t.Context(), up.ID, 0, 0, strings.NewReader("half"))
		require.NoError(t, err)
		require.NoError(t, giveUp(up.ID))
		require.Empty(t, s.files(t))
		_, err = l.Append(t.Context(), up.ID, 4, 0, strings.NewReader("rest"))
		require.ErrorContains(t, err, "does not exist")
	}
}

func TestUpload_nameIsNoPath(t *testing.T) {
	for given, kept := range map[string]string{
		`C:\isos\live.iso`: "live.iso", "../../etc/passwd": "passwd", "": "image.iso", "/": "image.iso",
		"a\x1b[2Jb": "a_[2Jb",
	} {
		require.Equal(t, kept, cleanName(given))
	}
}

// newISO is a live ISO that several OpenShift minor versions share.
var newISO = skeleton.ISO{VolumeID: "rhcos-9.6.20260112-0"}

func TestUpload_sameImageOtherVersion(t *testing.T) {
	s := newSite(t)
	l, stop := s.open(t)
	content := isoContent(t, newISO)
	send := func(version, sum string) (*Upload, error) {
		up, err := l.StartUpload(UploadRequest{Name: "live.iso", OpenshiftVersion: version, SHA256: sum})
		if err != nil {
			return nil, err
		}
		return l.Append(t.Context(), up.ID, 0, int64(len(content)), bytes.NewReader(content))
	}
	first, err := send("4.20", "")
	require.NoError(t, err)
	second, err := send("4.21.3", sumOf(content))
	require.NoError(t, err)
	for _, version := range []string{"4.20.8", "4.21.0"} {
		_, err := l.Find(version, "x86_64")
		require.NoError(t, err)
	}
	for _, sum := range []string{"", sumOf(content)} {
		_, err = send("4.21", sum)
		require.ErrorContains(t, err, "exists already as "+second.ID+" (OpenShift 4.21.3, x86_64)")
	}
	require.NoError(t, l.Remove(first.ID))
	stop()
	l, _ = s.open(t)
	base, err := l.Find("4.21.0", "x86_64")
	require.NoError(t, err)
	require.Equal(t, l.path(second.ID, isoEnding), base.Path())
}

func TestUpload_wrongLengthIsNotStored(t *testing.T) {
	l, _ := newSite(t).open(t)
	content := isoContent(t, iso)
	up, err := l.StartUpload(UploadRequest{})
	require.NoError(t, err)
	_, err = l.Append(t.Context(), up.ID, 0, 0, bytes.NewReader(content[:1000]))
	require.NoError(t, err)
	_, err = l.Append(t.Context(), up.ID, 1000, 500, bytes.NewReader(content[1000:]))
	require.ErrorContains(t, err, "states a size of 500 bytes, but the upload already has 1000; state the size of the "+
		"whole file")
	done, err := l.Append(t.Context(), up.ID, 1000, int64(len(content)), bytes.NewReader(content[1000:]))
	require.NoError(t, err)
	require.Equal(t, StateReady, done.Image.State)
}

func TestUpload_showsStatedValues(t *testing.T) {
	l, _ := newSite(t).open(t)
	sum := sumOf([]byte("a"))
	up, err := l.StartUpload(UploadRequest{OpenshiftVersion: "4.20", CPUArchitecture: "arm64",
		SHA256: strings.ToUpper(sum)})
	require.NoError(t, err)
	up, err = l.Offset(up.ID)
	require.NoError(t, err)
	require.Equal(t, &Upload{ID: up.ID, OpenshiftVersion: "4.20", CPUArchitecture: "aarch64", SHA256: sum}, up)
}

// An image is not called usable while its file still has another name.
func TestUpload_usableOnceItIsServed(t *testing.T) {
	s := newSite(t)
	l, _ := s.run(t)
	ctx, stop := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		for ctx.Err() == nil {
			list, err := l.List()
			assert.NoError(t, err)
			for _, image := range list {
				if image.Usable() && !assert.FileExists(t, image.Path) {
					return
				}
			}
		}
	})
	upload(t, l, isoContent(t, iso))
	stop()
	looking.Wait()
}
