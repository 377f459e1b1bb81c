package supportarchive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// unpack returns the members of an archive by their names.
func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	members := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return members
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		directory, name, _ := strings.Cut(header.Name, "/")
		require.Equal(t, "landfall-support-20260301T120000Z", directory)
		members[name] = string(content)
	}
}

func TestWrite_keepsWhatCouldBeCollected(t *testing.T) {
	redact := func(text string) string { return strings.ReplaceAll(text, "swordfish", "[redacted]") }
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	require.NoError(t, Write(t.Context(), &out, at, []Member{
		text("log.txt", "the log", redact, func(_ context.Context, out io.Writer) error {
			_, err := io.WriteString(out, "password swordfish\n")
			return err
		}),
		{"broken.json", "cannot be read", func(context.Context, io.Writer) error {
			return errors.New("the row swordfish is damaged")
		}},
		{"half.txt", "ends early", func(_ context.Context, out io.Writer) error {
			_, err := io.WriteString(out, "first half")
			return errors.Join(err, errors.New("input/output error"))
		}},
		{"huge.txt", "is cut", func(_ context.Context, out io.Writer) error {
			_, err := out.Write(make([]byte, memberLimit+1))
			return err
		}},
	}, redact))
	members := unpack(t, out.Bytes())
	require.Equal(t, "password [redacted]\n", members["log.txt"])
	require.NotContains(t, members, "broken.json")
	require.Equal(t, "first half", members["half.txt"])
	require.Len(t, members["huge.txt"], memberLimit)
	require.Equal(t, "broken.json: the row [redacted] is damaged\nhalf.txt: input/output error\n"+
		"huge.txt: it is larger than 32 MiB and was cut\n", members["errors.txt"])
	require.Contains(t, members["README.txt"], "log.txt                the log\n")
}

func TestFiles_listsTheDataDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "blobs"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "blobs", "one"), []byte("content"), 0o600))
	var out bytes.Buffer
	require.NoError(t, Files(dir).Write(t.Context(), &out))
	require.Regexp(t, `(?m)^ *7 +\S+ +-rw------- +blobs/one$`, out.String())
	require.NotContains(t, out.String(), "content")
}
