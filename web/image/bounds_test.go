package image

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"landfall/appliance/discovery"
	"landfall/isogen"
	"landfall/isogen/skeleton"
)

func openBase(t *testing.T) *isogen.Base {
	t.Helper()
	path := filepath.Join(t.TempDir(), "live.iso")
	var iso bytes.Buffer
	require.NoError(t, skeleton.Write(&iso, skeleton.ISO{RootFSSize: 100_000}))
	require.NoError(t, os.WriteFile(path, iso.Bytes(), 0o600))
	base, err := isogen.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, base.Close()) })
	return base
}

func rangeOf(agent string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/x.iso", nil)
	r.Header.Set("Range", "bytes=5-9")
	r.Header.Set("User-Agent", agent)
	return r
}

func TestReaders_bounded(t *testing.T) {
	clock := clockwork.NewFakeClock()
	s := newReaders(clock, time.Hour)
	full, err := openBase(t).Full(isogen.Payload{Ignition: []byte("config")})
	require.NoError(t, err)
	image := &download{Image: &discovery.Image{Image: full}}
	for i := range maxReaders + 100 {
		clock.Advance(time.Millisecond)
		s.bind(readerKey{client: fmt.Sprint(i), path: "/x.iso"}, rangeOf("bmc"), image)
	}
	require.Len(t, s.bound, maxReaders)
	require.Nil(t, s.pick(readerKey{client: "99", path: "/x.iso"}, rangeOf("bmc")),
		"the client with the longest idle time is dropped")
	require.NotNil(t, s.pick(readerKey{client: "100", path: "/x.iso"}, rangeOf("bmc")))
	require.Len(t, s.byTag, 1)
}

// Anybody can send a request with long texts for an image that he may read.
func TestReaders_boundedKeys(t *testing.T) {
	s := &Service{options: Options{Networks: discovery.Networks{{}}}}
	key := func(path, agent string) readerKey {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("User-Agent", agent)
		return s.key(r)
	}
	long := strings.Repeat("x", 60_000)
	require.Less(t, len(key("/byid/e/"+long+"/x86_64/full.iso?arch="+long, long).path), 300)
	require.Less(t, len(key("/x.iso", long).agent), 300)
	require.Equal(t, key("/x.iso", "bmc"), key("/x.iso?unknown="+long, "bmc"))
	require.NotEqual(t, key("/x?type=full-iso", "bmc"), key("/x?type=minimal-iso", "bmc"))
	require.NotEqual(t, key("/"+long, "bmc"), key("/"+long+"?version=4.20", "bmc"))
	require.NotEqual(t, key("/x.iso", "bmc"), key("/x.iso", "curl"))
}

func TestRevisions_boundedByMemory(t *testing.T) {
	clock, base := clockwork.NewFakeClock(), openBase(t)
	s := newReaders(clock, time.Hour)
	require.EqualValues(t, 256<<20, s.maxHeld)
	s.maxHeld = 10 << 20
	noise := make([]byte, 500_000)
	_, err := rand.NewChaCha8([32]byte{}).Read(noise)
	require.NoError(t, err)
	image, err := base.Full(isogen.Payload{Ignition: noise})
	require.NoError(t, err)
	require.Greater(t, image.Held(), int64(500_000))
	for i := range 40 {
		clock.Advance(time.Second)
		s.bind(readerKey{client: "c", path: fmt.Sprint(i)}, rangeOf("bmc"),
			&download{Image: &discovery.Image{Image: image, InfraEnvID: "env"}})
		require.LessOrEqual(t, s.held, s.maxHeld)
	}
	require.Less(t, len(s.byTag), 30)
	require.NotNil(t, s.byTag[tagKey{path: "39", tag: image.ETag()}])
	s.drop("env")
	require.Zero(t, s.held)
	require.Empty(t, s.bound)
}

func TestShortCode_revokedDuringLookup(t *testing.T) {
	c := &codes{clock: clockwork.NewFakeClock(), known: make(map[string]code)}
	c.source = racing{codes: c}
	found, err := c.infraEnv(t.Context(), "code")
	require.NoError(t, err)
	require.Equal(t, "env", found)
	require.Empty(t, c.known)
}

// racing revokes a code between the lookup of the code and its return.
type racing struct {
	Source
	codes *codes
}

func (r racing) ResolveCode(context.Context, string) (string, time.Time, error) {
	r.codes.drop("env")
	return "env", time.Time{}, nil
}
